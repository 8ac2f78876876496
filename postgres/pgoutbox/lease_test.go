package pgoutbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// lapse lets so much of every lease pass.
func lapse(t testing.TB, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	_, err := pool.Exec(context.Background(), "UPDATE flavoso_outbox_progress SET lapse_at = lapse_at - $1::bigint * interval '1 microsecond' WHERE lapse_at IS NOT NULL", d.Microseconds())
	require.NoError(t, err)
}

func TestAnExpiredLeaseIsTakenOverOnce(t *testing.T) {
	pool := newPool(t)
	engines := []*pgoutbox.Engine{open(t, pool), open(t, pool), open(t, pool), open(t, pool)}
	for i := range 20 {
		mustAdd(t, engines[0], op(fmt.Sprint("op-", i), fmt.Sprint("lane-", i)))
		mustAdd(t, engines[0], op(fmt.Sprint("behind-", i), fmt.Sprint("lane-", i)))
	}
	first := map[string]outbox.Record{}
	for _, r := range mustClaim(t, engines[0], outbox.ClaimRequest{Limit: 100, Mark: mark(time.Minute)}) {
		first[r.ID] = r
	}
	require.Len(t, first, 20)
	_, ok, err := engines[1].NextDue(t.Context(), outbox.Scope{})
	require.NoError(t, err)
	require.False(t, ok, "everything is claimed")
	lapse(t, pool, 59*time.Second)
	require.Empty(t, mustClaim(t, engines[1], outbox.ClaimRequest{Limit: 100}), "too early")
	lapse(t, pool, 2*time.Second)
	for _, s := range []outbox.Scope{{}, {Connections: []string{"store-1"}}, {Except: []string{"store-2"}}} {
		due, ok, err := engines[1].NextDue(t.Context(), s)
		require.NoError(t, err)
		require.True(t, ok && !due.After(time.Now()), "a claim whose lease is over is due")
	}
	require.Empty(t, mustClaim(t, engines[1], outbox.ClaimRequest{Limit: 100, Scope: outbox.Scope{Except: []string{"store-1"}}}))

	var mu sync.Mutex
	second := map[string]outbox.Record{}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for _, r := range mustClaim(t, engines[i%4], outbox.ClaimRequest{Limit: 5}) {
				mu.Lock()
				if _, twice := second[r.ID]; twice {
					t.Errorf("%s was taken over twice", r.ID)
				}
				second[r.ID] = r
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, second, 20)
	for id, r := range second {
		was := first[id]
		require.Equal(t, outbox.Sent, r.State)
		require.Equal(t, 2, r.Attempts)
		require.NotEqual(t, was.Claim.Token, r.Claim.Token)
		require.Equal(t, was.Exposure, r.Exposure, "it counts as sent since its first claim")
		// The new claim's exchange reached nobody; that says nothing about the first.
		s := success(r)
		s.To, s.Due, s.NeverSent = outbox.Queued, time.Now(), true
		require.NoError(t, mustSettle(t, engines[0], s).Err)
		require.Equal(t, outbox.Sent, mustGet(t, engines[0], id).State)
	}
	checkTables(t, pool)
}

func TestATakeoverOfAKeylessWriteWaitsAsLongAgain(t *testing.T) {
	e, pool := newEngine(t)
	mustAdd(t, e, op("a", "a", keyless))
	mustClaim(t, e, outbox.ClaimRequest{Limit: 1, Mark: mark(time.Minute)})
	lapse(t, pool, 119*time.Second)
	require.Empty(t, mustClaim(t, e, outbox.ClaimRequest{Limit: 1}), "its request may still be on the way")
	lapse(t, pool, 2*time.Second)
	require.Len(t, mustClaim(t, e, outbox.ClaimRequest{Limit: 1}), 1)
}

func TestAStaleWorkerChangesNothingAndItsVerdictIsEvidence(t *testing.T) {
	e, pool := newEngine(t)
	claim := func(id string) outbox.Record {
		out := mustClaim(t, e, outbox.ClaimRequest{Limit: 1, Mark: mark(time.Minute), First: []string{id}})
		require.Equal(t, []string{id}, ids(out))
		return out[0]
	}
	for _, c := range []struct {
		name     string
		holder   string // who has the record when the result comes
		to       outbox.State
		accepted bool
	}{
		{"nobody has taken it over", "stale", outbox.Succeeded, true},
		{"nobody has taken it over, no verdict", "stale", outbox.Uncertain, true},
		{"another works on it", "other", outbox.Succeeded, false},
		{"another's lease is over, too", "lapsed", outbox.Succeeded, true},
		{"another's lease is over, no verdict", "lapsed", outbox.Uncertain, false},
		{"another has given it back", "free", outbox.Succeeded, true},
		{"another has given it back, a rejection of an earlier attempt", "free", outbox.Rejected, false},
		{"another has finished it", "done", outbox.Rejected, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustAdd(t, e, op(c.name, c.name))
			stale := claim(c.name)
			lapse(t, pool, time.Hour)
			if c.holder != "stale" {
				other := claim(c.name)
				switch c.holder {
				case "free":
					s := success(other)
					s.To, s.Due = outbox.Queued, time.Now().Add(time.Hour)
					require.NoError(t, mustSettle(t, e, s).Err)
				case "done":
					require.NoError(t, mustSettle(t, e, success(other)).Err)
				case "lapsed":
					lapse(t, pool, time.Hour)
				}
			}
			before := mustGet(t, e, c.name)
			s := success(stale)
			s.To = c.to
			out := mustSettle(t, e, s)
			if !c.accepted {
				require.ErrorIs(t, out.Err, outbox.ErrClaimLost)
				require.Equal(t, before, mustGet(t, e, c.name))
				require.Equal(t, before, out.Record)
			} else {
				require.NoError(t, out.Err)
				require.Equal(t, c.to, mustGet(t, e, c.name).State)
			}
			checkTables(t, pool)
			_, err := pool.Exec(t.Context(), "UPDATE flavoso_outbox_progress SET lapse_at = now() + interval '1 hour' WHERE lapse_at IS NOT NULL")
			require.NoError(t, err)
		})
	}
}

func TestAnOperatorMayDecideWhatADeadWorkerHas(t *testing.T) {
	e, pool := newEngine(t)
	mustAdd(t, e, op("a", "a"))
	mustAdd(t, e, op("b", "a"))
	mustClaim(t, e, outbox.ClaimRequest{Limit: 1, Mark: mark(time.Minute)})
	change := outbox.Change{ID: "a", Action: outbox.ResolveDone, Now: time.Now()}
	_, err := e.Set(t.Context(), change)
	require.ErrorIs(t, err, outbox.ErrState)
	lapse(t, pool, time.Hour)
	_, err = e.Set(t.Context(), change)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 9})))
	checkTables(t, pool)
}

// Two machines whose clocks are an hour apart, and neither is the database's.
func TestWorkersWhoseClocksDifferAgree(t *testing.T) {
	pool := newPool(t)
	type machine struct {
		*pgoutbox.Engine
		now func() time.Time
	}
	at := func(skew time.Duration) machine {
		now := func() time.Time { return time.Now().Add(skew) }
		m := machine{open(t, pool, pgoutbox.Options{Clock: now}), now}
		_, err := m.Claim(t.Context(), outbox.ClaimRequest{Mark: outbox.Mark{Now: now()}, Limit: 1}) // any step shows the clock
		require.NoError(t, err)
		return m
	}
	slow, fast := at(-30*time.Minute), at(30*time.Minute)
	near := func(want, got time.Time, what string) {
		t.Helper()
		require.WithinDuration(t, want, got, 3*time.Second, what)
	}
	for i, m := range []struct{ adds, works machine }{{slow, fast}, {fast, slow}} {
		id := fmt.Sprint("op-", i)
		a := op(id, id)
		a.Now = m.adds.now()
		mustAdd(t, m.adds, a)
		got := mustGet(t, m.works, id)
		near(m.works.now(), got.Created, "accepted now, by the reader's clock")

		claim := func(m machine, by time.Duration) []outbox.Record {
			out, err := m.Claim(t.Context(), outbox.ClaimRequest{Mark: outbox.Mark{Now: m.now().Add(by), Lease: 10 * time.Minute}, Limit: 1})
			require.NoError(t, err)
			return out
		}
		r := claim(m.works, 0)
		require.Len(t, r, 1, "due at once")
		near(m.works.now().Add(10*time.Minute), r[0].Claim.Until, "lease by the worker's clock")
		require.Empty(t, claim(m.adds, 0), "an hour's difference does not end a lease")
		near(m.adds.now(), mustGet(t, m.adds, id).Exposure.At, "sent now, by the other's clock")

		s := success(r[0])
		s.Now, s.To, s.Due = m.works.now(), outbox.Queued, m.works.now().Add(10*time.Minute)
		require.NoError(t, mustSettle(t, m.works, s).Err)
		for _, x := range []machine{m.adds, m.works} {
			due, ok, err := x.NextDue(t.Context(), outbox.Scope{})
			require.NoError(t, err)
			require.True(t, ok)
			near(x.now().Add(10*time.Minute), due, "due in ten minutes on every clock")
			require.Empty(t, claim(x, 9*time.Minute))
		}
		r = claim(m.adds, 11*time.Minute)
		require.Len(t, r, 1)
		s = success(r[0])
		s.Now = m.adds.now()
		require.NoError(t, mustSettle(t, m.adds, s).Err)
		near(m.works.now(), mustGet(t, m.works, id).Finished, "finished now")
	}
}
