package pgoutbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// notifyEvery is the least time between two notifications of one engine.
	notifyEvery = 20 * time.Millisecond
	// listenAgain is how long a lost listener waits at most before it connects again.
	listenAgain = 30 * time.Second
)

// signal is how an engine and its fellows tell each other that something has changed.
type signal struct {
	changed chan struct{} // to the dispatcher
	others  chan struct{} // to notify
	channel string        // of LISTEN and NOTIFY
	self    string        // names this engine in its notifications, which it ignores
}

func newSignal(schema string) signal {
	s := signal{changed: make(chan struct{}, 1), others: make(chan struct{}, 1), channel: "flavoso_outbox", self: strconv.FormatUint(rand.Uint64(), 36)}
	if schema != "" {
		sum := sha256.Sum256([]byte(schema))
		s.channel += "_" + hex.EncodeToString(sum[:8])
	}
	return s
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// tell says that something has changed, here and elsewhere.
func (e *Engine) tell() {
	poke(e.signal.changed)
	if !e.opt.PollOnly {
		poke(e.signal.others)
	}
}

func (e *Engine) notifyCall(payload string) call {
	return call{sql: "SELECT pg_notify($1::text, $2::text)", args: []any{e.signal.channel, payload}}
}

// notify tells the other processes, in a transaction of its own: a NOTIFY makes commits wait for each other, and what
// happens in quick succession is told once.
func (e *Engine) notify() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.signal.others:
		}
		c := e.notifyCall(e.signal.self)
		if _, err := e.pool.Exec(e.ctx, c.sql, c.args...); err != nil && e.ctx.Err() == nil {
			e.log.Debug("pgoutbox.not_notified", "error", err) // the others poll
		}
		if !e.sleep(notifyEvery) {
			return
		}
	}
}

// sleep reports whether the engine is still open after d.
func (e *Engine) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.ctx.Done():
		return false
	}
}

// jitter returns d or up to a quarter more or less.
func jitter(d time.Duration) time.Duration { return d - d/4 + rand.N(d/2+1) }

// watch polls.
func (e *Engine) watch() {
	var seq, outcome int64
	for e.sleep(jitter(e.opt.Poll)) {
		var due bool
		var s, o int64
		var at time.Time
		before := e.clock.now()
		err := e.read(e.ctx, call{sql: e.sql.poll, args: []any{before.Add(-e.clock.off())}, row: func(scan scanner) error { return scan(&due, &s, &o, &at) }})
		if err == nil {
			e.clock.saw(before, at, e.clock.now())
			if due || s != seq || o != outcome {
				poke(e.signal.changed)
			}
			seq, outcome = s, o
			err = e.mergeTotals(e.ctx)
		}
		if err != nil && e.ctx.Err() == nil {
			e.log.Warn("pgoutbox.poll_failed", "error", err)
		}
	}
}

// errProxied says that between here and the server something changes the connections of a session.
var errProxied = errors.New("the connection goes through a proxy that pools: listening is not possible, polling goes on")

// listen waits for notifications on a connection of its own, and connects again when it is lost.
func (e *Engine) listen() {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, listenAgain) {
		began := time.Now()
		err := e.listenOnce()
		switch {
		case e.ctx.Err() != nil:
			return
		case errors.Is(err, errProxied):
			e.log.Info("pgoutbox.cannot_listen", "error", err)
			return
		}
		e.log.Warn("pgoutbox.not_listening", "error", err)
		if time.Since(began) > listenAgain {
			pause = 100 * time.Millisecond
		}
		if !e.sleep(jitter(pause)) {
			return
		}
	}
}

func (e *Engine) listenOnce() error {
	cfg := e.pool.Config()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(e.ctx, cfg.ConnConfig); err != nil {
			return err
		}
	}
	conn, err := pgx.ConnectConfig(e.ctx, cfg.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	var pid uint32
	if err := conn.QueryRow(e.ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errProxied
	}
	if _, err := conn.Exec(e.ctx, "LISTEN "+pgx.Identifier{e.signal.channel}.Sanitize()); err != nil {
		return err
	}
	poke(e.signal.changed) // something may have happened before
	for {
		n, err := conn.WaitForNotification(e.ctx)
		if err != nil {
			return err
		}
		if n.Payload != e.signal.self {
			poke(e.signal.changed)
		}
	}
}
