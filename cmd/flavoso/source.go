package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// source is an outbox to look into, wherever it is.
type source interface {
	Status(ctx context.Context, connection string) (inspect.Status, error)
	List(ctx context.Context, q outbox.Query) (inspect.Page, error)
	Show(ctx context.Context, id string, bodies bool) (inspect.Operation, error)
	Retry(ctx context.Context, id string) error
	Cancel(ctx context.Context, id string) error
	Resolve(ctx context.Context, id string, r inspect.Resolution) error
	Resume(ctx context.Context, r inspect.Resume) error
	Close() error
}

// open opens the outbox at where, or asks the till that has it open.
func (f *outboxFlags) open(ctx context.Context, where string) (source, error) {
	if f.inspect != "" {
		return openRemote(f.inspect)
	}
	src, err := f.openHere(ctx, where)
	var held *outbox.LockedError
	if errors.As(err, &held) {
		return askHolder(ctx, held)
	}
	return src, err
}

// with opens the outbox for do and closes it again. A file is not kept open longer than that: a till that
// starts meanwhile could not open it.
func (f *outboxFlags) with(ctx context.Context, where string, do func(source) error) error {
	src, err := f.open(ctx, where)
	if err != nil {
		return err
	}
	return errors.Join(do(src), src.Close())
}

// each calls do for every operation that q selects, up to limit of them; 0 = all. It reports whether there
// are more.
func each(ctx context.Context, src source, q outbox.Query, limit int, do func(inspect.Operation) error) (more bool, err error) {
	n := 0
	for {
		if q.Limit = inspect.MaxPage; limit > 0 {
			q.Limit = min(limit-n, inspect.MaxPage)
		}
		page, err := src.List(ctx, q)
		if err != nil {
			return false, err
		}
		for _, o := range page.Data {
			if err := do(o); err != nil {
				return false, err
			}
			n++
		}
		if page.Next == "" {
			return false, nil
		}
		if q.After = page.Next; limit > 0 && n >= limit {
			return true, nil
		}
	}
}

// engineSource is an outbox whose engine is open here.
type engineSource struct {
	path   string // of the file; "" = a database
	engine outbox.Engine
	close  func() error
}

func (s *engineSource) Status(ctx context.Context, connection string) (inspect.Status, error) {
	c, err := s.engine.Counts(ctx, connection)
	st := inspect.StatusOf(c, time.Now())
	if s.path != "" {
		st.Aside = inspect.AsideOf(s.path)
	}
	return st, err
}

func (s *engineSource) List(ctx context.Context, q outbox.Query) (inspect.Page, error) {
	p, err := s.engine.List(ctx, q)
	out := inspect.Page{Next: p.Next}
	for i := range p.Records {
		out.Data = append(out.Data, inspect.Of(&p.Records[i], q.Bodies))
	}
	return out, err
}

func (s *engineSource) Show(ctx context.Context, id string, bodies bool) (inspect.Operation, error) {
	r, err := s.engine.Get(ctx, id)
	if err != nil {
		return inspect.Operation{}, named(id, err)
	}
	return inspect.Of(&r, bodies), nil
}

func (s *engineSource) Retry(ctx context.Context, id string) error {
	return s.set(ctx, outbox.Change{ID: id, Action: outbox.RetryNow, Now: time.Now()})
}

func (s *engineSource) Cancel(ctx context.Context, id string) error {
	return s.set(ctx, outbox.Change{ID: id, Action: outbox.Cancel, Now: time.Now()})
}

// What a till that ended a moment ago sent may still be under way: for as long as an attempt takes with a
// client's default timeout.
const (
	attemptTimeout      = 30 * time.Second
	attemptBytesPerSec  = 64 << 10
	unknownStateOfSaves = "it may have been saved or not: look at it, or repeat the command"
)

func (s *engineSource) Resolve(ctx context.Context, id string, r inspect.Resolution) error {
	rec, err := s.engine.Get(ctx, id)
	if err != nil {
		return named(id, err)
	}
	hold := attemptTimeout + time.Duration(len(rec.Request.Body)/attemptBytesPerSec)*time.Second
	return s.set(ctx, inspect.Resolve(&rec, inspect.Decisions[r.Decision], r.Body, r.Note, time.Now(), hold))
}

func (s *engineSource) Resume(ctx context.Context, r inspect.Resume) error {
	return s.set(ctx, r.Change(time.Now()))
}

func (s *engineSource) set(ctx context.Context, c outbox.Change) error {
	_, err := s.engine.Set(ctx, c)
	var unknown *outbox.SaveError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return fmt.Errorf("%s: %w", unknownStateOfSaves, err)
	case c.ID == "":
		return fmt.Errorf("lane %s: %w", clean(c.Lane), err)
	}
	return named(c.ID, err)
}

func (s *engineSource) Close() error { return s.close() }

// named says which operation an error is about.
func named(id string, err error) error {
	if errors.Is(err, outbox.ErrNotFound) {
		return fmt.Errorf("there is no operation %s in this outbox", clean(id))
	}
	return fmt.Errorf("operation %s: %w", clean(id), err)
}

// dsnStart is how the names of databases begin: a URL, or the words of a connection string.
var dsnStart = regexp.MustCompile(`^(postgres(ql)?://|(host|hostaddr|port|user|dbname|service|sslmode) *=)`)

// isDatabase reports whether an outbox is named by how its database is reached.
func isDatabase(where string) bool { return dsnStart.MatchString(where) }
