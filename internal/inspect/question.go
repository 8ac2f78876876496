package inspect

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// MaxPage is the most operations that one page holds.
const MaxPage = 1000

// Values writes a query as URL parameters.
func Values(q outbox.Query) url.Values {
	v := url.Values{}
	for name, s := range map[string]string{"connection": q.Connection, "lane": q.Lane, "kind": q.Kind, "tag": q.Tag, "key": q.Key, "after": q.After} {
		if s != "" {
			v.Set(name, s)
		}
	}
	for _, s := range q.States {
		v.Add("state", string(s))
	}
	if q.Unacked {
		v.Set("unacked", "true")
	}
	if q.Bodies {
		v.Set("bodies", "true")
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// ParseQuery reads what Values wrote. Parameters that it does not know are refused: a mistyped filter must
// not select everything.
func ParseQuery(v url.Values) (q outbox.Query, err error) {
	for name, all := range v {
		if name != "state" && len(all) > 1 {
			return q, fmt.Errorf("%s is given twice", name)
		}
		s := all[0]
		switch name {
		case "connection":
			q.Connection = s
		case "lane":
			q.Lane = s
		case "kind":
			q.Kind = s
		case "tag":
			q.Tag = s
		case "key":
			q.Key = s
		case "after":
			q.After = s
		case "state":
			q.States, err = ParseStates(all)
		case "unacked":
			q.Unacked, err = strconv.ParseBool(s)
			q.ByOutcome = q.Unacked
		case "bodies":
			q.Bodies, err = strconv.ParseBool(s)
		case "limit":
			q.Limit, err = strconv.Atoi(s)
			if err == nil && (q.Limit < 1 || q.Limit > MaxPage) {
				err = fmt.Errorf("limit must be 1 to %d", MaxPage)
			}
		default:
			err = fmt.Errorf("no parameter %q", name)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// ParseStates reads the names of states. "waiting", "parked" and "final" stand for several.
func ParseStates(names []string) (out []outbox.State, err error) {
	for _, name := range names {
		found := false
		for _, s := range outbox.States() {
			group := name == "waiting" && s.Waiting() || name == "parked" && s.Parked() || name == "final" && s.Final()
			if name != string(s) && !group {
				continue
			}
			if found = true; !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		if !found {
			return nil, fmt.Errorf("no state %q; there are %v, and waiting, parked and final for several", name, outbox.States())
		}
	}
	return out, nil
}

// Resolution is a decision about an operation, as a person makes it.
type Resolution struct {
	Decision string          `json:"decision"` // one of Decisions
	Body     json.RawMessage `json:"body,omitempty"`
	Note     string          `json:"note,omitempty"`
}

// Decisions are the names of decisions.
var Decisions = map[string]outbox.Action{
	"done": outbox.ResolveDone, "send_again": outbox.ResolveSendAgain, "abandon": outbox.ResolveAbandon,
}

// Resolve returns the change that carries out a decision about rec. The answer of a request that is still
// under way somewhere may come as late as hold from now: what the lane writes next must not be overwritten
// by it.
func Resolve(rec *outbox.Record, action outbox.Action, body json.RawMessage, note string, now time.Time, hold time.Duration) outbox.Change {
	c := outbox.Change{ID: rec.ID, Action: action, Now: now}
	if action == outbox.ResolveSendAgain {
		return c
	}
	c.Result = &outbox.Result{Reason: "resolved", Note: note, At: now}
	if action == outbox.ResolveDone {
		c.Result.Body = body
	}
	if rec.WireKey == "" {
		c.LaneNotBefore = now.Add(hold)
	}
	return c
}

// Resume is the wish to let a lane go on that a rejection has stopped.
type Resume struct {
	Connection string `json:"connection"`
	Lane       string `json:"lane"`
}

// Change returns the change that carries it out.
func (r Resume) Change(now time.Time) outbox.Change {
	return outbox.Change{Connection: r.Connection, Lane: r.Lane, Action: outbox.ResolveSendAgain, Now: now}
}

// Address is what a till writes beside its outbox, so that the tool finds it.
type Address struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"`
}

// AddressSuffix is what the name of that file ends in, after the outbox's.
const AddressSuffix = ".inspect"
