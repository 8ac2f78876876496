// Command till is one life of a till in a torture run; see package life.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/dev/torture/life"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

func main() {
	if err := life.Run(open); err != nil {
		fmt.Fprintln(os.Stderr, "till:", err)
		os.Exit(1)
	}
}

// open opens the outbox and the client as the plan says.
func open(t *life.Life) (*life.Session, error) {
	p := t.Plan
	cfg := flavoso.Config{
		Connection: p.Connections[0], BaseURL: p.BaseURL, Token: flavoso.TokenFunc(t.Token), Retry: t.Retry(), MaxWait: life.MaxWait,
		AttemptTimeout: p.AttemptTimeout, Concurrency: 4, KeepFinished: -1, Transport: t.Transport(), OnOutcome: t.OnOutcome, Hooks: t.Hooks(),
	}
	if p.Purge {
		cfg.KeepFinished = 20 * time.Millisecond
	}
	var keys [][]byte
	if p.Seal {
		keys = [][]byte{[]byte("thirty-two bytes of a sealing ke")}
	}
	if p.Plain {
		cfg.OutboxPath, cfg.OutboxKeys = p.Outbox, keys
		client, err := flavoso.Open(cfg)
		if err != nil {
			return nil, err
		}
		return &life.Session{Clients: []*flavoso.Client{client}, Close: client.Close}, nil
	}
	var opts bolt.Options
	t.Storage(&opts)
	file, err := bolt.Open(p.Outbox, opts)
	if err != nil {
		return nil, err
	}
	cfg.Outbox = file
	if p.Seal {
		if cfg.Outbox, err = outbox.Seal(file, keys...); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	client, err := flavoso.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for _, r := range file.Reports() {
		t.Note(fmt.Sprintf("storage: %+v", r))
	}
	return &life.Session{Clients: []*flavoso.Client{client}, Compact: file.Compact, Close: func() error {
		return errors.Join(client.Close(), file.Close())
	}}, nil
}
