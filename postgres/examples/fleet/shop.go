package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// shop is the web shop: it saves reservations and sends nothing itself.
type shop struct {
	pool       *pgxpool.Pool
	engine     outbox.Engine
	fleet      *flavoso.Fleet
	opens      time.Time
	kept       map[string]string // reference → restaurant
	rolledBack []string
}

func openShop(ctx context.Context, pool *pgxpool.Pool, baseURL string) (*shop, error) {
	_, err := pool.Exec(ctx, `CREATE TABLE reservation (
		ref text PRIMARY KEY, restaurant text NOT NULL, guests int NOT NULL, state text NOT NULL DEFAULT 'saved')`)
	if err != nil {
		return nil, err
	}
	engine := pgoutbox.New(pool, pgoutbox.Options{})
	fleet, err := flavoso.OpenFleet(flavoso.FleetConfig{Outbox: engine, Token: tokens(), BaseURL: baseURL, Concurrency: -1})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &shop{pool: pool, engine: engine, fleet: fleet, kept: map[string]string{},
		opens: time.Now().Add(48 * time.Hour).Truncate(time.Hour)}, nil
}

func (s *shop) close() {
	_ = s.fleet.Close()
	_ = s.engine.Close()
}

var errDeclined = errors.New("the card was declined")

// reserve takes one reservation: the shop's own row and the operation for Flavoso commit together or not at all.
func (s *shop) reserve(ctx context.Context, i int) error {
	ref, restaurant := fmt.Sprintf("R-%04d", i), fmt.Sprintf("store-%d", i%restaurants)
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO reservation (ref, restaurant, guests) VALUES ($1, $2, $3)`, ref, restaurant, 2+i%5); err != nil {
			return err
		}
		call := s.fleet.Client(restaurant).Bookings.Create(ref, flavoso.BookingParams{
			StartsAt: s.opens.Add(time.Duration(i) * time.Minute), PartySize: 2 + i%5,
			Customer: flavoso.BookingCustomer{Name: fmt.Sprint("Guest ", i)},
		}).WithTag(ref)
		if _, err := call.EnqueueTx(ctx, pgoutbox.Tx(tx)); err != nil {
			return err
		}
		if i%10 == 9 {
			return errDeclined
		}
		return nil
	})
	switch {
	case errors.Is(err, errDeclined):
		s.rolledBack = append(s.rolledBack, ref)
	case err != nil:
		return err
	default:
		s.kept[ref] = restaurant
	}
	return nil
}

func (s *shop) counts() (kept, rolledBack int) { return len(s.kept), len(s.rolledBack) }

// waitForAll waits until every reservation's outcome has come back to the shop's own table.
func (s *shop) waitForAll(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var open int
		if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM reservation WHERE state = 'saved'`).Scan(&open); err != nil {
			return err
		}
		if open == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d reservations are still open: %w", open, ctx.Err())
		}
	}
}

// judge compares the shop's account with Flavoso's ledger.
func (s *shop) judge(flavoso *mockserver.Server, say func(string, ...any)) error {
	made := map[string]int{}
	for _, e := range flavoso.Effects() {
		if e.Kind == "bookings.create" {
			made[e.Key]++
		}
	}
	posts, lost := 0, 0
	for _, r := range flavoso.Requests() {
		if r.Method == "POST" {
			posts++
		}
		if r.Fault == "drop_response" {
			lost++
		}
	}
	missing, twice, wrong := 0, 0, 0
	for ref := range s.kept {
		switch n := made["booking-"+ref]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	for _, ref := range s.rolledBack {
		wrong += made["booking-"+ref]
	}
	say("Flavoso's ledger: %d reservations made in %d requests, of which %d got no answer; %d missing, %d made twice, %d that the shop had rolled back.",
		len(made), posts, lost, missing, twice, wrong)
	if missing+twice+wrong > 0 || len(made) != len(s.kept) {
		return errors.New("the promise was broken")
	}
	return nil
}
