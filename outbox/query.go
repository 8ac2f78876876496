package outbox

import (
	"slices"
	"strconv"
)

// Includes reports whether the scope selects the connection.
func (s Scope) Includes(connection string) bool {
	if s.Connections != nil && !slices.Contains(s.Connections, connection) {
		return false
	}
	return !slices.Contains(s.Except, connection)
}

// Matches reports whether the query selects the record, leaving aside order and page.
func (q *Query) Matches(r *Record) bool {
	switch {
	case q.Connection != "" && r.Connection != q.Connection,
		q.Lane != "" && r.Lane != q.Lane,
		q.Kind != "" && r.Kind != q.Kind,
		q.Tag != "" && r.Tag != q.Tag,
		q.Key != "" && r.Key != q.Key,
		q.States != nil && !slices.Contains(q.States, r.State),
		q.ByOutcome && r.OutcomeSeq == 0,
		q.Unacked && !r.Unacked(),
		!q.ExpiringBefore.IsZero() && (r.State != Queued || r.Expires.IsZero() || !r.Expires.Before(q.ExpiringBefore)):
		return false
	}
	return true
}

// position is where the record stands in the query's order; a page's Next is the last one's, in decimal.
func (q *Query) position(r *Record) uint64 {
	if q.ByOutcome {
		return r.OutcomeSeq
	}
	return r.Seq
}

// StripBodies removes what Query.Bodies = false leaves out.
func (r *Record) StripBodies() {
	r.Request.Body = nil
	r.Sealed = nil
	if r.Result != nil {
		res := *r.Result
		res.Body = nil
		r.Result = &res
	}
}

// Start returns the position behind which the page starts and how many records it may hold.
func (q *Query) Start() (after uint64, limit int, err error) {
	limit = q.Limit
	if limit <= 0 {
		limit = 100
	}
	if q.After != "" {
		after, err = strconv.ParseUint(q.After, 10, 64)
	}
	return after, limit, err
}
