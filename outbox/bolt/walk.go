package bolt

import (
	"cmp"
	"slices"

	"github.com/flavoso/flavoso-go/outbox"
)

// nextEntry returns the next entry of a walk: its position in the query's order, and whose it is where the
// entry tells.
type nextEntry func() (at, seq uint64, connection string, ok bool)

// walk goes through the smallest index that holds everything the query may select, from behind after.
func (t *reader) walk(q *outbox.Query, after uint64) nextEntry {
	switch {
	case after == 1<<64-1 || t.noneOf(q):
		return nothing
	case q.Newest && q.Connection != "" && q.Key != "" && !q.ByOutcome:
		return t.walkNewest(q, after)
	case q.ByOutcome && q.Unacked:
		return t.walkOutcomes(bUnacked, after)
	case q.ByOutcome:
		return t.walkOutcomes(bOutcome, after)
	case q.States == nil || slices.ContainsFunc(q.States, outbox.State.Final) && slices.ContainsFunc(q.States, unfinished):
		return t.walkSeqs(bRequest, after)
	case !slices.ContainsFunc(q.States, unfinished):
		return t.walkSeqs(bDone, after)
	case !slices.ContainsFunc(q.States, outbox.State.Waiting) && t.fewOutcomes(q):
		return t.walkParked(q, after)
	}
	return t.walkLive(q, after)
}

func unfinished(s outbox.State) bool { return !s.Final() }

func nothing() (at, seq uint64, connection string, ok bool) { return }

// noneOf reports whether no record is in the states that the query selects, by the kept totals.
func (t *reader) noneOf(q *outbox.Query) bool {
	if q.States == nil {
		return false
	}
	c, err := t.counts(q.Connection)
	if err != nil {
		return false // there are none kept for it, or the walk meets the same damage
	}
	n := int64(0)
	for i, s := range stateLetters {
		if slices.Contains(q.States, s) || s == outbox.Queued && slices.Contains(q.States, outbox.Sent) {
			n += c.states[i] // one stored as queued counts as sent when the file is suspect
		}
	}
	return n == 0
}

// fewOutcomes reports whether parked records are found sooner among the outcomes than among the unfinished
// ones: while a large backlog waits.
func (t *reader) fewOutcomes(q *outbox.Query) bool {
	all, err := t.counts("")
	if err != nil || q.Lane != "" {
		return false
	}
	unfinished, err := t.counts(q.Connection)
	if err != nil {
		return false
	}
	outcomes, live := int64(0), int64(0)
	for i, s := range stateLetters {
		if !s.Waiting() {
			outcomes += all.states[i]
		}
		if !s.Final() {
			live += unfinished.states[i]
		}
	}
	return outcomes <= listScan && outcomes < live
}

// walkParked goes through the parked records by way of the outcomes, of which there are at most listScan.
func (t *reader) walkParked(q *outbox.Query, after uint64) nextEntry {
	type place struct {
		seq        uint64
		connection string
	}
	var parked []place
	next := t.walkOutcomes(bOutcome, 0)
	for _, seq, connection, ok := next(); ok; _, seq, connection, ok = next() {
		t.visited++
		if seq > after && (q.Connection == "" || connection == q.Connection) && t.mayBe(q.States, seq, connection) {
			parked = append(parked, place{seq, connection})
		}
	}
	slices.SortFunc(parked, func(a, b place) int { return cmp.Compare(a.seq, b.seq) })
	return func() (at, seq uint64, connection string, ok bool) {
		if len(parked) == 0 {
			return
		}
		p := parked[0]
		parked = parked[1:]
		return p.seq, p.seq, p.connection, true
	}
}

// walkNewest finds the newest record made with a key.
func (t *reader) walkNewest(q *outbox.Query, after uint64) nextEntry {
	r, _, err := t.lookup(q.Connection, q.Key)
	t.fail(err)
	return func() (at, seq uint64, connection string, ok bool) {
		if r == nil || r.Seq <= after {
			return
		}
		seq, r = r.Seq, nil
		return seq, seq, q.Connection, true
	}
}

// walkSeqs goes through a bucket whose keys are seqs.
func (t *reader) walkSeqs(bucket int, after uint64) nextEntry {
	c := t.b[bucket].cursor()
	k, _ := c.seek(seqKey(after + 1))
	return func() (at, seq uint64, connection string, ok bool) {
		if k == nil {
			return
		}
		seq = lastSeq(k)
		k, _ = c.next()
		return seq, seq, "", true
	}
}

func (t *reader) walkOutcomes(bucket int, after uint64) nextEntry {
	c := t.b[bucket].cursor()
	k, v := c.seek(seqKey(after + 1))
	return func() (at, seq uint64, connection string, ok bool) {
		if k == nil {
			return
		}
		seq, connection, _, err := outcomeOf(k, v)
		t.fail(err)
		at = lastSeq(k)
		k, v = c.next()
		return at, seq, connection, true
	}
}

// walkLive goes through unfinished records only, however many finished ones there are: those of a lane, of
// a connection, or of all connections merged.
func (t *reader) walkLive(q *outbox.Query, after uint64) nextEntry {
	bucket, within := bLive, func(connection string) []byte { return appendText(nil, connection) }
	if q.Lane != "" {
		bucket, within = bLane, func(connection string) []byte { return lanePrefix(connection, q.Lane) }
	}
	connections := []string{q.Connection}
	if q.Connection == "" {
		connections = t.liveConnections()
	}
	type line struct {
		c          *cursor
		connection string
		prefix, k  []byte
	}
	var lines []*line
	for _, name := range connections {
		l := &line{c: t.b[bucket].cursor(), connection: name, prefix: within(name)}
		if l.k, _ = l.c.seek(appendSeq(within(name), after+1)); hasPrefix(l.k, l.prefix) {
			lines = append(lines, l)
		}
	}
	return func() (at, seq uint64, connection string, ok bool) {
		if len(lines) == 0 {
			return
		}
		least := slices.MinFunc(lines, func(a, b *line) int { return cmp.Compare(lastSeq(a.k), lastSeq(b.k)) })
		seq = lastSeq(least.k)
		if least.k, _ = least.c.next(); !hasPrefix(least.k, least.prefix) {
			lines = slices.DeleteFunc(lines, func(l *line) bool { return l == least })
		}
		return seq, seq, least.connection, true
	}
}

// liveConnections returns the connections that have unfinished records.
func (t *reader) liveConnections() (names []string) {
	c := t.b[bLive].cursor()
	for k, _ := c.first(); k != nil; {
		name, _, ok := cutText(k)
		if !ok {
			k, _ = c.next()
			continue
		}
		names = append(names, name)
		k, _ = c.seek(afterText(name))
	}
	return names
}
