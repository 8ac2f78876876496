package pgoutbox

import (
	"context"
	"time"
)

// adoptBatch is how many records one step of Adopt marks.
const adoptBatch = 1000

// $1 behind  $2 up to  $3 limit
const adoptSQL = `SELECT ` + progressColumns + `, p.body, o.created FROM ` + both + `
WHERE p.seq > $1::bigint AND p.seq <= $2::bigint AND p.open ORDER BY p.seq LIMIT $3::bigint FOR UPDATE OF p`

// Adopt says that the database was restored from a backup, or is a replica that was behind when it was promoted; nothing
// in its tables can show that. Every unfinished operation counts as sent since it was accepted, and what is not
// repeat-safe is read back before it is sent. It returns how many operations that are.
//
// Call it before workers start on the restored database: what one of them has claimed before that goes on as it began. It
// works in batches. After an error those that are done stay marked: call it again; marking twice is the same as once.
// What is added meanwhile is left alone.
func (e *Engine) Adopt(ctx context.Context) (suspect int, err error) {
	if err := e.enter(ctx); err != nil {
		return 0, err
	}
	defer e.leave()
	var last int64
	if err := e.read(ctx, call{sql: e.sql.last, row: func(scan scanner) error { return scan(&last) }}); err != nil {
		return 0, wrap("adopt", err)
	}
	for behind := int64(0); ; {
		var marked int
		next := behind
		err := e.run(ctx, task{what: "adopt"}, func(ctx context.Context, st *step) error {
			c := newChanges(st)
			marked, next = 0, behind
			err := st.begin(ctx, call{sql: e.sql.adopt, args: []any{behind, last, adoptBatch}, row: func(scan scanner) error {
				s, err := scanAccepted(scan, st.off)
				if err != nil {
					return err
				}
				marked, next = marked+1, int64(s.Seq)
				was := *s
				s.suspect()
				c.touch(s, was)
				return nil
			}})
			if err != nil || marked == 0 {
				return err
			}
			return c.write(ctx)
		}, nil)
		if err != nil {
			return suspect, err
		}
		suspect += marked
		if behind = next; marked < adoptBatch {
			break
		}
	}
	e.tell()
	return suspect, nil
}

// suspect makes the record count as sent since it was accepted. A claim stays until its lease is over: whoever
// holds it may be sending, and nobody else must meanwhile.
func (s *stored) suspect() {
	claim := s.Claim
	s.ApplySuspect()
	s.Claim = claim
}

// scanAccepted reads the columns of scanProgress and when the operation was accepted.
func scanAccepted(scan scanner, off time.Duration) (*stored, error) {
	var created time.Time
	s, err := scanProgress(func(dst ...any) error { return scan(append(dst, &created)...) }, off)
	if err == nil {
		s.Created = created.UTC().Add(off)
	}
	return s, err
}
