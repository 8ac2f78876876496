package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// clean makes a text from outside safe for a terminal: what would control it is shown instead.
func clean(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// ago says for people how long something took, or has been: 40s, 5m, 3h, 2d.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// stamp is a time for people, in their own zone.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// plural counts things.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// why says in a few words what an operation waits for, or how it ended.
func why(o *inspect.Operation) string {
	switch {
	case o.State.Waiting() && o.LastAttempt != nil:
		return attemptText(o.LastAttempt)
	case o.State.Waiting():
		return ""
	}
	answer := strings.TrimSpace(statusText(o.Status) + " " + o.Code)
	switch {
	case o.Reason == "":
		return clean(answer)
	case answer == "":
		return clean(o.Reason)
	}
	return clean(o.Reason + ": " + answer)
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return strconv.Itoa(status)
}

// attemptText says what came of an attempt.
func attemptText(a *inspect.Attempt) string {
	if a.Status != 0 {
		return clean(strings.TrimSpace(statusText(a.Status) + " " + a.Code))
	}
	if a.Error == "" {
		return "no answer"
	}
	return clean(a.Error)
}

// summary says how an outbox stands, in one line.
func summary(s *inspect.Status) string {
	var parts []string
	waiting := fmt.Sprintf("%d waiting", s.Waiting())
	if !s.Oldest.IsZero() {
		waiting += fmt.Sprintf(" (the oldest for %s)", ago(s.AsOf.Sub(s.Oldest)))
	}
	parts = append(parts, waiting)
	for _, state := range []outbox.State{outbox.Uncertain, outbox.Blocked, outbox.Damaged} {
		parts = append(parts, fmt.Sprintf("%d %s", s.States[state], state))
	}
	if s.HeldLanes > 0 {
		parts = append(parts, plural(s.HeldLanes, "lane")+" held")
	}
	if t := s.Till; t != nil {
		switch {
		case t.AuthRequired:
			parts = append(parts, "Flavoso refuses the token")
		case !t.OfflineSince.IsZero():
			parts = append(parts, "offline for "+ago(s.AsOf.Sub(t.OfflineSince)))
		case !t.PausedUntil.IsZero():
			parts = append(parts, "paused by Flavoso until "+stamp(t.PausedUntil))
		default:
			parts = append(parts, "online")
		}
	}
	return strings.Join(parts, ", ")
}

// advice says what somebody can do about an operation in a state.
var advice = map[outbox.State]string{
	outbox.Queued: "It goes on by itself. Provably never sent: it can be cancelled.",
	outbox.Sent:   "It goes on by itself: with the same key and bytes, or by looking first whether it was done.",
	outbox.Uncertain: "It may have been done. Look at Flavoso, then: resolve --done if it was, resolve --send-again if it was\n" +
		"not, resolve --abandon if it is not wanted any more. It holds its lane until then.",
	outbox.Blocked: "It is not sent by itself. Remove what is in the way, then: resolve --send-again, or resume for its whole\n" +
		"lane; cancel or resolve --abandon if it is not wanted any more. It holds its lane until then.",
	outbox.Damaged: "Its record cannot be read whole, and counts as sent. Look at Flavoso, then: resolve --done if it was done,\n" +
		"resolve --abandon if not, and do it again at the till. It holds its lane until then.",
}
