package idempotency_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/idempotency/idempotencytest"
)

// testClock is a clock that tests move.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock() *testClock { return &testClock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now creeps on with every look, as real clocks do.
func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Nanosecond)
	return c.now
}

func (c *testClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestMemoryPassesTheSuite(t *testing.T) {
	idempotencytest.Run(t, func(t *testing.T) idempotencytest.Fixture {
		clock := newTestClock()
		eng := idempotency.NewMemory(idempotency.WithClock(clock.Now))
		return idempotencytest.Fixture{Engine: eng, Advance: clock.Advance,
			Open: func(skew time.Duration) idempotency.Engine { return skewed{eng, clock, skew} }}
	})
}

// skewed is a handle whose process has a wrong clock: the engine sees it during the handle's own calls.
type skewed struct {
	idempotency.Engine
	clock *testClock
	skew  time.Duration
}

func (s skewed) Claim(ctx context.Context, req idempotency.ClaimRequest) (idempotency.ClaimResult, error) {
	s.clock.Advance(s.skew)
	defer s.clock.Advance(-s.skew)
	return s.Engine.Claim(ctx, req)
}

func (s skewed) Complete(ctx context.Context, c idempotency.Claim, r idempotency.Result) error {
	s.clock.Advance(s.skew)
	defer s.clock.Advance(-s.skew)
	return s.Engine.Complete(ctx, c, r)
}

func request(key string) idempotency.ClaimRequest {
	return idempotency.ClaimRequest{Scope: idempotency.Scope{Tenant: "t", Operation: "op", Key: key},
		Fingerprint: idempotency.NewFingerprint(200, []byte(key)), Lease: time.Minute, Retention: time.Hour}
}

func claim(t *testing.T, e idempotency.Engine, key string) idempotency.Claim {
	t.Helper()
	res, err := e.Claim(t.Context(), request(key))
	require.NoError(t, err)
	require.Equal(t, idempotency.New, res.Decision)
	return res.Claim
}

func TestMemoryRefusesNewKeysWhenFullAndKeepsItsPromises(t *testing.T) {
	clock := newTestClock()
	eng := idempotency.NewMemory(idempotency.WithClock(clock.Now), idempotency.WithMaxRecords(3))
	first := claim(t, eng, "a")
	claim(t, eng, "b")
	require.NoError(t, eng.Complete(t.Context(), first, idempotency.Result{Status: 201}))
	claim(t, eng, "c")
	_, err := eng.Claim(t.Context(), request("d"))
	require.ErrorIs(t, err, idempotency.ErrFull)
	res, err := eng.Claim(t.Context(), request("a"))
	require.NoError(t, err)
	require.Equal(t, idempotency.Replay, res.Decision, "a held result is never evicted")
	clock.Advance(time.Hour)
	claim(t, eng, "d") // what has expired makes room, wherever it is
	_, err = eng.Claim(t.Context(), request("e"))
	require.ErrorIs(t, err, idempotency.ErrFull)
}

func TestMemoryIsBoundedByBytes(t *testing.T) {
	clock := newTestClock()
	eng := idempotency.NewMemory(idempotency.WithClock(clock.Now), idempotency.WithMaxBytes(10_000))
	require.NoError(t, eng.Complete(t.Context(), claim(t, eng, "a"), idempotency.Result{Status: 200, Body: make([]byte, 20_000)}))
	_, err := eng.Claim(t.Context(), request("b"))
	require.ErrorIs(t, err, idempotency.ErrFull)
	clock.Advance(time.Hour)
	claim(t, eng, "b")
}

func TestMemoryShrinksWhileItIsUsed(t *testing.T) {
	clock := newTestClock()
	eng := idempotency.NewMemory(idempotency.WithClock(clock.Now))
	for i := range 2000 {
		require.NoError(t, eng.Complete(t.Context(), claim(t, eng, "old"+strconv.Itoa(i)), idempotency.Result{Status: 200}))
	}
	clock.Advance(time.Hour)
	for i := range 2000 {
		claim(t, eng, "new"+strconv.Itoa(i))
	}
	st, err := eng.Stats(t.Context())
	require.NoError(t, err)
	require.Less(t, st.Records, int64(2300), "expired records leave without a sweep")
	for more := true; more; {
		rep, err := eng.Sweep(t.Context(), 1000)
		require.NoError(t, err)
		more = rep.More
	}
	st, err = eng.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2000, st.Records)
	require.EqualValues(t, 2000, st.Counters.Swept)
}

func TestMemorySnapshotGoesOnWhereItStopped(t *testing.T) {
	clock := newTestClock()
	eng := idempotency.NewMemory(idempotency.WithClock(clock.Now))
	running := claim(t, eng, "running")
	done := claim(t, eng, "done")
	want := idempotency.Result{Status: 201, Header: map[string][]string{"X": {"a,b", "c"}}, Body: []byte{0, 255}}
	require.NoError(t, eng.Complete(t.Context(), done, want))
	parked := claim(t, eng, "parked")
	require.NoError(t, eng.MarkUncertain(t.Context(), parked, "why"))
	snap, err := eng.Snapshot()
	require.NoError(t, err)
	later := claim(t, eng, "later")

	again := idempotency.NewMemory(idempotency.WithClock(clock.Now))
	claim(t, again, "gone by the restore")
	require.NoError(t, again.Restore(snap))
	res, err := again.Claim(t.Context(), request("done"))
	require.NoError(t, err)
	require.Equal(t, want, res.Result)
	require.ErrorIs(t, again.Complete(t.Context(), later, want), idempotency.ErrOwnershipLost)
	require.NoError(t, again.Complete(t.Context(), running, want), "a living claim survives")
	list, err := again.List(t.Context(), idempotency.Filter{})
	require.NoError(t, err)
	require.Len(t, list, 3)
	st, err := again.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, st.Records)
	fresh := claim(t, again, "fresh")
	require.Greater(t, fresh.Generation, parked.Generation)
	clock.Advance(time.Hour)
	claim(t, again, "done")

	require.Error(t, again.Restore([]byte("{")))
	require.ErrorContains(t, again.Restore([]byte(`{"version":99}`)), "version 99")
	require.Error(t, again.Restore([]byte(`{"version":1,"records":[{"record":{"State":"completed"},"result":"Bw=="}]}`)))
	_, err = again.Claim(t.Context(), request("fresh"))
	require.NoError(t, err, "a failed restore changes nothing")
}

// The engine against a model, step by step: whatever the order, it decides as the table of S4 says.
func TestMemoryFollowsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newTestClock()
		eng := idempotency.NewMemory(idempotency.WithClock(clock.Now))
		ctx := context.Background()
		model := map[string]*modelRecord{}
		claims := []idempotency.Claim{}
		keys := rapid.SampledFrom([]string{"a", "b", "c"})
		highest := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				key, same := keys.Draw(t, "key"), rapid.Bool().Draw(t, "same payload")
				req := request(key)
				if !same {
					req.Fingerprint = idempotency.NewFingerprint(200, []byte("other"))
				}
				res, err := eng.Claim(ctx, req)
				require.NoError(t, err)
				want := modelClaim(model, key, same, clock)
				require.Equal(t, want, res.Decision)
				if want == idempotency.New || want == idempotency.TakenOver {
					require.Greater(t, res.Claim.Generation, highest)
					highest = res.Claim.Generation
					model[key].owner = res.Claim.Owner
					claims = append(claims, res.Claim)
				}
			},
			"finish": func(t *rapid.T) {
				if len(claims) == 0 {
					t.Skip()
				}
				c := rapid.SampledFrom(claims).Draw(t, "claim")
				m := model[c.Scope.Key]
				mine := m != nil && m.owner == c.Owner
				switch rapid.IntRange(0, 3).Draw(t, "how") {
				case 0:
					err := eng.Complete(ctx, c, idempotency.Result{Status: 200})
					require.Equal(t, mine, err == nil)
					if mine && m.state != idempotency.Completed {
						m.state, m.expires = idempotency.Completed, clock.peek().Add(time.Hour)
					}
				case 1:
					err := eng.Release(ctx, c)
					switch {
					case !mine:
						require.ErrorIs(t, err, idempotency.ErrOwnershipLost)
					case m.state == idempotency.Completed:
						require.ErrorIs(t, err, idempotency.ErrFinished)
					default:
						require.NoError(t, err)
						delete(model, c.Scope.Key)
					}
				case 2:
					err := eng.MarkEffect(ctx, c)
					if mine && m.state != idempotency.Completed {
						require.NoError(t, err)
						m.effect = true
					} else {
						require.Error(t, err)
					}
				case 3:
					_, err := eng.Extend(ctx, c, time.Minute)
					if mine && m.state != idempotency.Completed {
						require.NoError(t, err)
						m.lease = clock.peek().Add(time.Minute)
					} else {
						require.Error(t, err)
					}
				}
			},
			"advance": func(t *rapid.T) {
				clock.Advance(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "by"))
			},
		})
	})
}

type modelRecord struct {
	state          idempotency.State
	same, effect   bool
	owner          idempotency.Owner
	lease, expires time.Time
}

func (c *testClock) peek() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func modelClaim(model map[string]*modelRecord, key string, same bool, clock *testClock) idempotency.Decision {
	now := clock.peek()
	m := model[key]
	own := func(d idempotency.Decision) idempotency.Decision {
		model[key] = &modelRecord{state: idempotency.Processing, same: same, lease: now.Add(time.Minute)}
		return d
	}
	switch {
	case m == nil, m.state == idempotency.Completed && !now.Before(m.expires):
		return own(idempotency.New)
	case m.same != same:
		return idempotency.Mismatch
	case m.state == idempotency.Completed:
		return idempotency.Replay
	case m.state == idempotency.Uncertain:
		return idempotency.Uncertain
	case now.Before(m.lease):
		return idempotency.InProgress
	case m.effect:
		m.state = idempotency.Uncertain
		return idempotency.Uncertain
	}
	return own(idempotency.TakenOver)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func FuzzRestore(f *testing.F) {
	eng := idempotency.NewMemory()
	for _, key := range []string{"done", "running"} {
		res, err := eng.Claim(f.Context(), request(key))
		require.NoError(f, err)
		if key == "done" {
			require.NoError(f, eng.Complete(f.Context(), res.Claim, goldenResult()))
		}
	}
	good, err := eng.Snapshot()
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"version":1,"generation":-5,"records":[{"record":{"State":"completed"},"result":"AQIA"},{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		eng := idempotency.NewMemory()
		if eng.Restore(data) != nil {
			return
		}
		// Whatever was accepted can be listed, counted, swept and saved again.
		_, err := eng.List(t.Context(), idempotency.Filter{Limit: 1 << 20})
		require.NoError(t, err)
		_, err = eng.Stats(t.Context())
		require.NoError(t, err)
		again, err := eng.Snapshot()
		require.NoError(t, err)
		require.NoError(t, idempotency.NewMemory().Restore(again))
		_, err = eng.Sweep(t.Context(), 1<<20)
		require.NoError(t, err)
	})
}
