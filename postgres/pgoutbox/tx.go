package pgoutbox

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flavoso/flavoso-go/outbox"
)

// Tx lets an addition join the application's transaction: both are committed, or neither.
func Tx(tx pgx.Tx) outbox.Tx { return joined{pgxSession{tx}} }

// SQLTx is Tx for a transaction of database/sql, with any driver for PostgreSQL that takes $1 for parameters.
func SQLTx(tx *sql.Tx) outbox.Tx { return joined{sqlSession{tx}} }

type joined struct{ session }

// OutboxTx implements outbox.Tx.
func (joined) OutboxTx() {}

// addIn adds in the application's transaction. Nothing in it can fail because of a duplicate.
func (e *Engine) addIn(ctx context.Context, a *outbox.Addition) (outbox.Added, error) {
	tx, ok := a.Tx.(joined)
	if !ok {
		return outbox.Added{}, fmt.Errorf("%w: it was not made by pgoutbox", outbox.ErrTxUnsupported)
	}
	for try := 0; ; try++ {
		ad, err := e.tryIn(ctx, tx, a)
		switch {
		case err != nil:
			return outbox.Added{}, wrap("add", err)
		case ad != nil:
			return ad.answer()
		case try == tries:
			return outbox.Added{}, wrap("add", errRaced)
		}
	}
}

// tryIn returns nil when somebody else was faster.
func (e *Engine) tryIn(ctx context.Context, tx joined, a *outbox.Addition) (*adding, error) {
	st := &step{e: e, s: tx, off: e.clock.off(), stamp: rand.Int64()}
	ad := &adding{a: a, st: st}
	if err := st.first(ctx, append([]call{st.clockCall()}, ad.reads()...)...); err != nil {
		return nil, err
	}
	if ad.decide() {
		return ad, nil
	}
	insert, err := ad.insert()
	if err != nil {
		return nil, err
	}
	calls := []call{insert}
	if st.sync == "off" {
		calls = append(calls, call{sql: durable})
	}
	if !e.opt.PollOnly && ad.r.head {
		calls = append(calls, e.notifyCall(""))
	}
	if err := tx.do(ctx, calls...); err != nil || ad.seq == 0 {
		return nil, err
	}
	if ad.replaced == nil {
		return ad, nil
	}
	if calls, err = ad.replaced.calls(); err != nil {
		return nil, err
	}
	return ad, tx.do(ctx, calls...)
}

// takeover returns how long after a claim another worker may take the record over. What no key protects may still be
// on its way when the lease is over: it waits as long again, which is more than an attempt takes.
func takeover(r *outbox.Record, m outbox.Mark) time.Duration {
	lease := m.Lease
	if lease <= 0 {
		lease = defaultLease
	}
	if r.Key == "" {
		lease *= 2
	}
	return lease
}

// defaultLease is the lease of a claim that names none.
const defaultLease = 5 * time.Minute
