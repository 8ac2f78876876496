package bolt

import "github.com/flavoso/flavoso-go/outbox"

// header is the file's identity and what numbers things. It is written with every commit.
type header struct {
	id         string // names the outbox, also in the files beside it
	commits    uint64 // rises with every commit: tells versions of the file and of records apart
	seq        uint64
	outcomeSeq uint64
	dueSeq     uint64
	// line counts how often the file was found restored, cloned or salvaged. Unfinished records whose
	// progress was written under an earlier line are suspect; nothing has to be rewritten for that.
	line     uint64
	buffered uint64 // how many values the bucket buffer holds
}

func (h *header) encode() []byte {
	e := newFrame(tagHeader, 64)
	e.str(h.id)
	for _, v := range []uint64{h.commits, h.seq, h.outcomeSeq, h.dueSeq, h.line, h.buffered} {
		e.uint(v)
	}
	return e.finishFrame(headerKey)
}

func decodeHeader(v []byte) (h header, err error) {
	p, err := openFrame(tagHeader, headerKey, v)
	if err != nil {
		return h, err
	}
	d := decoder{b: p}
	h.id = d.str()
	for _, f := range []*uint64{&h.commits, &h.seq, &h.outcomeSeq, &h.dueSeq, &h.line} {
		*f = d.uint()
	}
	if len(d.b) > 0 { // not in format 1
		h.buffered = d.uint()
	}
	return h, d.err
}

// counts are the totals of a connection.
type counts struct {
	states  [stateCount]int64
	bytes   int64
	held    int64
	unacked int64
}

const stateCount = 11

func (c *counts) encode(key []byte) []byte {
	e := newFrame(tagCounts, 64)
	for _, n := range c.states {
		e.int(n)
	}
	e.int(c.bytes)
	e.int(c.held)
	e.int(c.unacked)
	return e.finishFrame(key)
}

func decodeCounts(key, v []byte) (c counts, err error) {
	if v == nil {
		return c, nil
	}
	p, err := openFrame(tagCounts, key, v)
	if err != nil {
		return c, err
	}
	d := decoder{b: p}
	for i := range c.states {
		c.states[i] = d.int()
	}
	c.bytes = d.int()
	c.held = d.int()
	c.unacked = d.int()
	return c, d.err
}

func (c *counts) unfinished() (n int64) {
	for i, s := range stateLetters {
		if s.Waiting() || s.Parked() {
			n += c.states[i]
		}
	}
	return n
}

// suspect counts what was queued as sent.
func (c *counts) suspect() {
	queued, sent := &c.states[stateByte(outbox.Queued)-'a'], &c.states[stateByte(outbox.Sent)-'a']
	*sent += *queued
	*queued = 0
}

// add counts r in or, with sign -1, out.
func (c *counts) add(r *entry, sign int64) {
	c.states[stateByte(r.State)-'a'] += sign
	if r.Unfinished() {
		c.bytes += sign * r.size
	}
	if r.Unacked() {
		c.unacked += sign
	}
}
