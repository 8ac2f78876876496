// Package life is one life of a process in a torture run: it opens an outbox, works until it is killed or
// kills itself at a named point, and keeps an account of what it was promised and told.
package life

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
	"github.com/flavoso/flavoso-go/outbox"
)

// Life is the process.
type Life struct {
	Plan    plan.Till
	acc     *account.Writer
	death   *death
	session *Session
}

// Session is the open outbox, with a client for each connection.
type Session struct {
	Clients []*flavoso.Client
	Close   func() error
	Compact func(context.Context) error // nil = there is nothing to compact
	// InTx runs work in a transaction of the application's own database, and commits it or not; nil = the
	// outbox cannot join one.
	InTx func(ctx context.Context, commit bool, work func(outbox.Tx) error) error
}

// Run lives the life that the environment describes.
func Run(open func(*Life) (*Session, error)) error {
	t := &Life{}
	if err := plan.Read(&t.Plan); err != nil {
		return err
	}
	var err error
	if t.acc, err = account.Append(t.Plan.Account, t.Plan.Life); err != nil {
		return err
	}
	t.death = newDeath(t)
	if t.session, err = open(t); err != nil {
		if errors.Is(err, outbox.ErrLocked) {
			return err
		}
		// A full or failing disk may keep an outbox from being opened. Nothing was promised in this life.
		t.Note("open: " + shorten(err))
		if t.tolerant() {
			return nil
		}
		return err
	}
	t.acc.Write(account.Event{What: account.Opened, Text: fmt.Sprint(os.Getpid())})
	if t.Plan.Drain {
		err = t.drain()
	} else {
		err = t.work()
	}
	cerr := t.session.Close()
	if t.tolerant() {
		cerr = nil // a failing storage may refuse the last commit
	}
	return errors.Join(err, cerr)
}

func (t *Life) tolerant() bool { return len(t.Plan.Disk) > 0 || t.Plan.Tolerant }

// Note writes something worth telling to the account.
func (t *Life) Note(text string) { t.acc.Write(account.Event{What: account.Note, Text: text}) }

// Token reads the token of a connection, which may be replaced at any moment.
func (t *Life) Token(_ context.Context, r flavoso.TokenRequest) (string, error) {
	token, err := os.ReadFile(filepath.Join(t.Plan.TokenDir, r.Connection+".token"))
	return string(token), err
}

// Retry is the delay rule of all lives: a usual one, a hundred times as fast.
func (t *Life) Retry() flavoso.RetryPolicy {
	return flavoso.ExponentialJitter{Base: 4 * time.Millisecond, Floor: time.Millisecond, Cap: 60 * time.Millisecond}
}

// MaxWait is how long a call waits at most.
const MaxWait = 200 * time.Millisecond

// Hooks are where a life can end, and how it learns what is durable.
func (t *Life) Hooks() flavoso.Hooks {
	return flavoso.Hooks{
		Saved: func(_ context.Context, o flavoso.Outcome) {
			t.acc.Write(account.Event{What: account.Saved, Op: o.Tag, ID: o.ID})
			t.death.at(plan.AfterSave)
		},
		AttemptStart: func(ctx context.Context, _ flavoso.Outcome) context.Context {
			t.death.at(plan.AfterExposure)
			return ctx
		},
		Finished: func(o flavoso.Outcome) {
			if o.Durable {
				t.death.at(plan.OutcomeSaved)
			}
		},
	}
}

// OnOutcome notes what it is told. Now and then it does not take it.
func (t *Life) OnOutcome(_ context.Context, _ *flavoso.Client, o flavoso.Outcome) error {
	t.death.at(plan.InHandler)
	t.acc.Write(account.Event{What: account.Outcome, Op: o.Tag, ID: o.ID, State: string(o.State), Revision: o.Revision,
		Status: o.Status, Reason: o.Reason, Key: string(o.Key), Attempts: o.Attempts, FirstSent: o.FirstSent, ByOther: o.ByOther})
	t.death.at(plan.HandlerDone)
	if !t.Plan.Drain && rand.IntN(20) == 0 {
		return errors.New("the kitchen printer is out of paper")
	}
	return nil
}

// Transport is the client's usual one with the wire's points of death in it. It stays an *http.Transport,
// so that the client can prove what was never sent.
func (t *Life) Transport() *http.Transport {
	dialer := net.Dialer{Timeout: time.Second}
	return &http.Transport{
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Second,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &wire{Conn: c, death: t.death}, nil
		},
	}
}

// wire is a network connection at whose bytes a process can die.
type wire struct {
	net.Conn
	death *death
}

func (w *wire) Write(b []byte) (int, error) {
	if w.death.due(plan.HalfWritten) {
		_, _ = w.Conn.Write(b[:len(b)/2]) // it dies in the middle
		w.death.die(plan.HalfWritten)
	}
	n, err := w.Conn.Write(b)
	w.death.at(plan.Written)
	return n, err
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.death.at(plan.Answered)
		w.death.answered.Store(true)
	}
	return n, err
}

// shorten keeps an account readable.
func shorten(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	return text[:min(len(text), 300)]
}
