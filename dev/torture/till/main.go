// Command till is one life of a till in a torture run: it opens an outbox, works until it is killed or
// kills itself at a named point, and keeps an account of what it was promised and told.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// till is the process.
type till struct {
	plan   plan.Till
	acc    *account.Writer
	client *flavoso.Client
	file   *bolt.Engine // nil = the client has opened its outbox itself
	death  *death
}

func main() {
	t := &till{}
	if err := t.run(); err != nil {
		fmt.Fprintln(os.Stderr, "till:", err)
		os.Exit(1)
	}
}

func (t *till) run() error {
	if err := plan.Read(&t.plan); err != nil {
		return err
	}
	var err error
	if t.acc, err = account.Append(t.plan.Account, t.plan.Life); err != nil {
		return err
	}
	t.death = newDeath(t)
	if err := t.open(); err != nil {
		if errors.Is(err, outbox.ErrLocked) {
			return err
		}
		// A full or failing disk may keep an outbox from being opened. Nothing was promised in this life.
		t.acc.Write(account.Event{What: account.Note, Text: "open: " + err.Error()})
		if len(t.plan.Disk) > 0 || t.plan.Tolerant {
			return nil
		}
		return err
	}
	t.acc.Write(account.Event{What: account.Opened, Text: fmt.Sprint(os.Getpid())})
	if t.plan.Drain {
		err = t.drain()
	} else {
		err = t.work()
	}
	return errors.Join(err, t.close())
}

// open opens the client as the plan says.
func (t *till) open() error {
	p := t.plan
	cfg := flavoso.Config{
		Connection: p.Connection, BaseURL: p.BaseURL,
		Token: flavoso.TokenFunc(func(context.Context, flavoso.TokenRequest) (string, error) {
			token, err := os.ReadFile(p.TokenFile)
			return string(token), err
		}),
		Retry:   flavoso.ExponentialJitter{Base: 4 * time.Millisecond, Floor: time.Millisecond, Cap: 60 * time.Millisecond},
		MaxWait: 200 * time.Millisecond, AttemptTimeout: p.AttemptTimeout, Concurrency: 4,
		KeepFinished: -1,
		Transport:    t.transport(),
		OnOutcome:    t.onOutcome,
		Hooks: flavoso.Hooks{
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
		},
	}
	if p.Purge {
		cfg.KeepFinished = 20 * time.Millisecond
	}
	keys := [][]byte(nil)
	if p.Seal {
		keys = [][]byte{[]byte("thirty-two bytes of a sealing ke")}
	}
	var err error
	if p.Plain {
		cfg.OutboxPath, cfg.OutboxKeys = p.Outbox, keys
		t.client, err = flavoso.Open(cfg)
		return err
	}
	var opts bolt.Options
	t.storage(&opts)
	if t.file, err = bolt.Open(p.Outbox, opts); err != nil {
		return err
	}
	cfg.Outbox = t.file
	if p.Seal {
		if cfg.Outbox, err = outbox.Seal(t.file, keys...); err != nil {
			return errors.Join(err, t.file.Close())
		}
	}
	if t.client, err = flavoso.Open(cfg); err != nil {
		return errors.Join(err, t.file.Close())
	}
	for _, r := range t.file.Reports() {
		t.acc.Write(account.Event{What: account.Note, Text: fmt.Sprintf("storage: %+v", r)})
	}
	return nil
}

func (t *till) close() error {
	err := t.client.Close()
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
	}
	if len(t.plan.Disk) > 0 || t.plan.Tolerant {
		return nil // a failing disk may refuse the last commit
	}
	return err
}

// transport is the client's usual one with the wire's points of death in it. It stays an *http.Transport,
// so that the client can prove what was never sent.
func (t *till) transport() *http.Transport {
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

// wire is a network connection at whose bytes a till can die.
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

// onOutcome notes what it is told. Now and then it does not take it.
func (t *till) onOutcome(_ context.Context, _ *flavoso.Client, o flavoso.Outcome) error {
	t.death.at(plan.InHandler)
	t.acc.Write(account.Event{What: account.Outcome, Op: o.Tag, ID: o.ID, State: string(o.State), Revision: o.Revision,
		Status: o.Status, Reason: o.Reason, Key: string(o.Key), Attempts: o.Attempts, FirstSent: o.FirstSent, ByOther: o.ByOther})
	t.death.at(plan.HandlerDone)
	if !t.plan.Drain && rand.IntN(20) == 0 {
		return errors.New("the kitchen printer is out of paper")
	}
	return nil
}

// drain works off everything there is, and lists it.
func (t *till) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	for {
		t.client.Wake()
		open := false
		for _, err := range t.client.Operations.List(ctx, flavoso.OperationFilter{States: []flavoso.State{flavoso.StateQueued, flavoso.StateSent}}) {
			if err != nil {
				return err
			}
			open = true
			break
		}
		for _, err := range t.client.Operations.List(ctx, flavoso.OperationFilter{Unacked: true}) {
			if err != nil {
				return err
			}
			open = true
			break
		}
		if !open || t.onlyHeld(ctx) {
			break
		}
		select {
		case <-time.After(15 * time.Millisecond):
		case <-ctx.Done():
			t.acc.Write(account.Event{What: account.Note, Text: fmt.Sprintf("it does not settle: %+v", t.client.Status())})
			return t.list()
		}
	}
	return t.list()
}

// onlyHeld reports whether everything that waits does so behind a parked operation, and everything that is
// known was taken over.
func (t *till) onlyHeld(ctx context.Context) bool {
	if t.client.Status().HeldLanes == 0 {
		return false
	}
	held := map[string]bool{}
	for o, err := range t.client.Operations.List(ctx, flavoso.OperationFilter{States: []flavoso.State{flavoso.StateUncertain, flavoso.StateBlocked, flavoso.StateDamaged}}) {
		if err != nil || !o.Acked {
			return false
		}
		held[o.Lane] = true
	}
	for o, err := range t.client.Operations.List(ctx, flavoso.OperationFilter{}) {
		if err != nil || o.State.Waiting() && !held[o.Lane] || !o.State.Waiting() && !o.Acked {
			return false
		}
	}
	return true
}

func (t *till) list() error {
	for o, err := range t.client.Operations.List(context.Background(), flavoso.OperationFilter{Bodies: true}) {
		if err != nil {
			return err
		}
		t.acc.Write(account.Event{What: account.Kept, Op: o.Tag, ID: o.ID, Kind: o.Kind, Lane: o.Lane, Method: o.Method, Target: o.Target,
			State: string(o.State), Revision: o.Revision, Status: o.Status, Reason: o.Reason, Key: string(o.Key), Attempts: o.Attempts,
			FirstSent: o.FirstSent, ByOther: o.ByOther, Acked: o.Acked, Body: o.RequestBody})
	}
	t.acc.Write(account.Event{What: account.Settled})
	return nil
}

// shorten keeps an account readable.
func shorten(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	return text[:min(len(text), 300)]
}
