package pgoutbox

import (
	"context"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// An addition that nothing stands in the way of needs one round trip, and shares it with others that come at the same
// time: its lane is locked by nobody, and its ID and its key are new. For all others nothing is done, and they take the
// longer way by themselves.

// quick is such an addition.
type quick struct {
	a             *outbox.Addition
	plain, claims outbox.Record // the record as it is saved: behind others of its lane, or when it is the head and claimed
	claimable     bool
	lease         time.Duration

	seq     int64
	claimed bool
	lost    error // its COMMIT was not answered
	err     error // nothing was done, and nothing can be
}

// newQuick returns nil when the addition needs what only the longer way reads.
func (e *Engine) newQuick(a *outbox.Addition) *quick {
	if a.Limits.Operations > 0 || a.Limits.Bytes > 0 {
		return nil
	}
	choice := outbox.Decide(nil, a) // that is, if the key is new
	x := &quick{a: a, plain: *outbox.NewRecord(a, choice.Generation, 0)}
	if outbox.CheckLimits(a.Limits, 0, 0, &x.plain) != nil {
		return nil
	}
	round(&x.plain)
	if m := a.Claim; m != nil && !x.plain.Due.After(m.Now) {
		s := stored{Record: *x.plain.Clone()}
		s.claim(*m)
		x.claims, x.lease, x.claimable = s.Record, s.lease, true
	}
	return x
}

func (x *quick) bytes() int { return len(x.a.Record.Request.Body) + len(x.a.Record.Sealed) }

// answer returns the answer; nil = take the longer way.
func (x *quick) answer() *outbox.Added {
	if x.seq == 0 {
		return nil
	}
	r := x.plain
	if x.claimed {
		r = x.claims
	}
	r.Seq = uint64(x.seq)
	return &outbox.Added{Decision: outbox.AddedNew, Record: r}
}

// addQuick saves as many of them as it can.
func (e *Engine) addQuick(all []*quick) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	fail := func(err error) {
		for _, x := range all {
			if x.seq = 0; mayBeDone(err) {
				x.lost = err
			}
		}
	}
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		for _, x := range all {
			x.err = wrap("add", err)
		}
		return
	}
	defer conn.Release()
	st := &step{e: e, s: pgxSession{conn}, off: e.clock.off(), stamp: rand.Int64()}
	batch, args, err := quickColumns(st, all)
	if err != nil {
		for _, x := range all {
			x.err = wrap("add", err)
		}
		return
	}
	insert, params := e.sql.insertQuick, args
	if len(batch) == 1 {
		insert, params = e.sql.insertAlone, alone(args)
	}
	err = st.first(ctx, // without BEGIN and COMMIT: what is sent at once is one transaction
		st.plannerCall(e.sql.plannerQuick), call{sql: e.sql.lockQuick, args: args[3:4]}, call{sql: insert, args: params, row: func(scan scanner) error {
			var n, seq int64
			var claimed bool
			if err := scan(&n, &seq, &claimed); err != nil {
				return err
			}
			batch[n-1].seq, batch[n-1].claimed = seq, claimed
			return nil
		}})
	if err != nil {
		fail(err)
		return
	}
	e.rollup.wrote()
	e.tell()
}

// quickColumns returns the additions that can go together, and the arguments of insertQuickSQL.
func quickColumns(st *step, all []*quick) ([]*quick, []any, error) {
	var (
		id, conn, lane, kind, resource, key, tag, method, target, ctype, accept, token []string
		lock                                                                           []int32
		derived, safe, stop, supersede                                                 []bool
		fingerprint, body, sealed                                                      [][]byte
		created, due                                                                   []time.Time
		expires, claimAt, claimUntil                                                   []*time.Time
		size, order, lease                                                             []int64
		detail                                                                         []*string
		batch                                                                          []*quick
	)
	type name struct{ conn, key string }
	seen := map[name]bool{}
	for _, x := range all {
		r := *x.plain.Clone()
		byID, byKey := name{"\x00", r.ID}, name{r.Connection, "\x00" + r.Key}
		if seen[byID] || r.Key != "" && seen[byKey] {
			continue
		}
		seen[byID], seen[byKey] = true, true
		shift(&r, -st.off)
		c := *x.claims.Clone()
		shift(&c, -st.off)
		text, err := encodeDetail(&c)
		if err != nil {
			return nil, nil, err
		}
		batch = append(batch, x)
		id, conn, lane, lock = append(id, enc(r.ID)), append(conn, enc(r.Connection)), append(lane, enc(r.Lane)), append(lock, laneLock(r.Connection, r.Lane))
		kind, resource, key, tag = append(kind, enc(r.Kind)), append(resource, enc(r.Resource)), append(key, enc(r.Key)), append(tag, enc(r.Tag))
		derived, safe, stop = append(derived, r.KeyDerived), append(safe, r.RepeatSafe), append(stop, r.StopLaneOnReject)
		supersede, fingerprint = append(supersede, x.a.Supersede), append(fingerprint, r.Fingerprint)
		created, expires, due = append(created, r.Created), append(expires, orNull(r.Expires)), append(due, r.Due)
		method, target = append(method, enc(r.Request.Method)), append(target, enc(r.Request.Target))
		ctype, accept = append(ctype, enc(r.Request.ContentType)), append(accept, enc(r.Request.Accept))
		size, body, sealed, order = append(size, r.Size()), append(body, r.Request.Body), append(sealed, r.Sealed), append(order, st.e.clock.next())
		token, claimAt, claimUntil = append(token, enc(c.Claim.Token)), append(claimAt, orNull(c.Claim.At)), append(claimUntil, orNull(c.Claim.Until))
		detail, lease = append(detail, text), append(lease, x.lease.Microseconds())
	}
	return batch, []any{id, conn, lane, lock, kind, resource, key, tag, derived, safe, stop, supersede, fingerprint, created, expires, due, method, target,
		ctype, accept, size, body, sealed, order, token, claimAt, claimUntil, detail, lease, st.stamp}, nil
}

// alone returns the parameters of insertAloneSQL.
func alone(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if v := reflect.ValueOf(a); v.Kind() == reflect.Slice {
			a = v.Index(0).Interface()
		}
		out[i] = a
	}
	return out
}
