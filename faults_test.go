package flavoso

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// TestAddFails: what could not be saved was not sent; what may have been saved is settled by the same call.
func TestAddFails(t *testing.T) {
	for name, tc := range map[string]struct {
		rule rule
		fate Fate
		is   error
	}{
		"disk full":                      {rule{method: "Add", err: errFull, times: 1}, FateNotSent, ErrOutboxFull},
		"fault":                          {rule{method: "Add", err: errDisk, times: 1}, FateNotSent, ErrOutboxFault},
		"unknown, it was not saved":      {rule{method: "Add", err: errUnknown, times: 1}, FateUnknown, ErrUnknown},
		"unknown, it was saved, claimed": {rule{method: "Add", err: errUnknown, times: 1, saved: true}, FateUnknown, ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, api := newFaulty(), &fakeAPI{}
				c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = f })
				r := tc.rule
				f.script(&r)
				call := post(c, "a")
				_, err := call.Do(t.Context())
				require.Equal(t, tc.fate, FateOf(err), "%v", err)
				require.ErrorIs(t, err, tc.is)
				if tc.fate == FateUnknown {
					var unknown *SaveError
					require.ErrorAs(t, err, &unknown)
					require.Equal(t, call.Key(), unknown.Key)
					require.NotEmpty(t, unknown.OperationID)
				} else {
					require.ErrorIs(t, err, ErrNotSaved)
					time.Sleep(time.Hour)
					require.Zero(t, api.count())
				}
				v, err := call.Do(t.Context())
				require.NoError(t, err, "the same call settles it")
				require.Equal(t, "1", v.ID)
				require.Equal(t, 1, api.count(), "once")
				next, err := post(c, "a").Do(t.Context())
				require.NoError(t, err, "its lane is not held")
				require.NotNil(t, next)
			})
		})
	}
}

// TestClaimWhoseCommitIsUnknown: the claims may have been made, and nobody works on them. They are found
// and given back; nothing waits for the next restart.
func TestClaimWhoseCommitIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, api := newFaulty(), &fakeAPI{}
		backlog(t, f, 5, 2)
		f.script(&rule{method: "Claim", err: errUnknown, times: 2, saved: true})
		f.script(&rule{method: "List", err: errDisk, times: 1, when: func(arg any) bool {
			q := arg.(outbox.Query)
			return len(q.States) == 1 && q.States[0] == outbox.Sent // the search for them fails once, too
		}})
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = f })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, c.Flush(ctx))
		require.Equal(t, 10, api.count())
		for _, r := range []int{0, 1} {
			require.Equal(t, StateSucceeded, stateOf(t, c, fmt.Sprintf("lane-00003-%d", r)))
		}
	})
}

// TestVerdictThatCannotBeSaved: Do returns it at once, as not durable. Its lane is held, nothing of it is
// sent again, other lanes go on, and it is saved when the storage allows.
func TestVerdictThatCannotBeSaved(t *testing.T) {
	for name, rl := range map[string]rule{
		"fault":                     {method: "Settle", err: errDisk},
		"unknown, it was not saved": {method: "Settle", err: errUnknown},
		"unknown, it was saved":     {method: "Settle", err: errUnknown, saved: true, times: 1},
		"full disk":                 {method: "Settle", err: errFull},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, api := newFaulty(), &fakeAPI{}
				var got delivered
				var mu sync.Mutex
				var finished []bool
				c := newFakeTill(t, api, func(cfg *Config) {
					cfg.Outbox = f
					cfg.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error { got.note(o); return nil }
					cfg.Hooks.Finished = func(o Outcome) {
						mu.Lock()
						defer mu.Unlock()
						if o.Lane == "a" {
							finished = append(finished, o.Durable)
						}
					}
				})
				r := rl
				r.when = func(arg any) bool {
					rec, err := f.Engine.Get(context.Background(), arg.(outbox.Settlement).ID)
					return err == nil && rec.Lane == "a"
				}
				f.script(&r)
				call := post(c, "a")
				began := time.Now()
				v, err := call.Do(t.Context())
				require.NoError(t, err)
				require.Equal(t, "1", v.ID)
				require.Less(t, time.Since(began), time.Second, "the verdict is known, whatever the storage does")
				o, ok := call.Outcome()
				require.True(t, ok)
				require.Equal(t, StateSucceeded, o.State)
				require.False(t, o.Durable)
				if !r.saved {
					require.Empty(t, got.tags(), "OnOutcome is called after durability")
				}

				behind, err := post(c, "a").Enqueue(t.Context())
				require.NoError(t, err)
				_, err = post(c, "b").Do(t.Context())
				require.NoError(t, err, "other lanes go on")
				if rl.times == 0 {
					time.Sleep(2 * time.Minute)
					require.Equal(t, 2, api.count(), "neither it nor its lane is sent")
					require.Equal(t, StateQueued, stateOf(t, c, behind.ID()))
					require.ErrorIs(t, c.Operations.Cancel(t.Context(), o.ID), ErrState)
				}
				f.heal()
				time.Sleep(2 * time.Minute)
				o, _ = call.Outcome()
				require.True(t, o.Durable)
				_, err = behind.Wait(t.Context())
				require.NoError(t, err)
				require.Equal(t, 3, api.count())
				require.Equal(t, 1, got.times(o.ID), "the application is told once it is durable")
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, []bool{false, true}, finished[:2])
			})
		})
	}
}

// TestRescheduleThatCannotBeSaved: not a verdict, but the operation must go on all the same.
func TestRescheduleThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		down := true
		f, api := newFaulty(), &fakeAPI{status: func(*http.Request) int {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return 503
			}
			return 200
		}}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = f })
		f.script(&rule{method: "Settle", err: errUnknown, times: 3})
		p, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		mu.Lock()
		down = false
		mu.Unlock()
		_, err = p.Wait(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, api.count(), 6, "no more than the delays of a second allow")
	})
}

// TestUnsavedVerdictAndClose: the storage fails for good, and the process ends. Close neither hangs nor
// panics; the next process sends the same key and bytes again.
func TestUnsavedVerdictAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, api := newFaulty(), &fakeAPI{}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = f })
		f.script(&rule{method: "Settle", err: errDisk})
		call := post(c, "a")
		_, err := call.Do(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		rec, err := f.Engine.Get(t.Context(), mustOutcomeID(t, f))
		require.NoError(t, err)
		require.Equal(t, outbox.Sent, rec.State, "it counts as possibly sent")
		require.NotNil(t, rec.Exposure)
	})
}

func mustOutcomeID(t *testing.T, e outbox.Engine) string {
	t.Helper()
	p, err := e.List(context.Background(), outbox.Query{})
	require.NoError(t, err)
	require.Len(t, p.Records, 1)
	return p.Records[0].ID
}

// TestStorageFailsForAWhile, in every method in turn, for a while: nothing is lost, doubled or stuck, and
// nothing spins.
func TestStorageFailsForAWhile(t *testing.T) {
	for _, method := range []string{"Claim", "NextDue", "Get", "List", "Counts", "Settle", "Ack", "Purge", "SaveState", "Set"} {
		for name, err := range map[string]error{"fault": errDisk, "unknown": errUnknown} {
			t.Run(method+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, api := newFaulty(), &fakeAPI{}
					var got delivered
					c := newFakeTill(t, api, func(cfg *Config) {
						cfg.Outbox, cfg.Concurrency = f, 2
						cfg.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error { got.note(o); return nil }
					})
					r := f.script(&rule{method: method, err: err})
					var calls []*Call[thing]
					for i := range 12 {
						call := post(c, fmt.Sprint("lane-", i%4)).WithTag(fmt.Sprint(i))
						calls = append(calls, call)
						_, err := call.Enqueue(t.Context())
						require.NoError(t, err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					_, err := calls[0].Do(ctx)
					cancel()
					if err != nil {
						require.Equal(t, FateUnknown, FateOf(err), "%v", err)
					}
					if method != "Settle" {
						_ = c.Flush(contextFor(t, time.Minute))
					}
					_ = c.Status()
					time.Sleep(10 * time.Minute)
					require.Less(t, f.hits(r), 2_000, "no hot loop")
					f.heal()
					time.Sleep(10 * time.Minute)
					require.NoError(t, c.Flush(contextFor(t, time.Hour)))
					time.Sleep(2 * time.Minute)
					require.Equal(t, 12, api.count())
					for _, call := range calls {
						o, ok := call.Outcome()
						require.True(t, ok)
						require.Equal(t, StateSucceeded, o.State)
						require.GreaterOrEqual(t, got.times(o.ID), 1)
					}
				})
			})
		}
	}
}

// TestThePanicsOfOthers: what the application gave the client may panic or end its goroutine. The process
// goes on, and so does the operation.
func TestThePanicsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		panics := 3
		boom := func() bool {
			mu.Lock()
			defer mu.Unlock()
			panics--
			return panics >= 0
		}
		s := newTill(t, func(c *Config) {
			token := c.Token
			c.Token = TokenFunc(func(ctx context.Context, r TokenRequest) (string, error) {
				if boom() {
					panic("the token source has a bug")
				}
				return token.Token(ctx, r)
			})
			c.Hooks = Hooks{
				Saved:        func(context.Context, Outcome) { panic("saved") },
				AttemptStart: func(context.Context, Outcome) context.Context { panic("start") },
				AttemptEnd:   func(context.Context, Outcome, *Attempt) { panic("end") },
				Finished:     func(Outcome) { panic("finished") },
				StatusChange: func(Status) { panic("status") },
			}
		})
		id := s.srv.AddOrder(store, mockserver.Order{})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(contextFor(t, time.Hour))
		require.NoError(t, err)
		s.srv.AssertExactlyOnce(t, "orders.accept", id)
	})
	t.Run("transport", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			api := &fakeAPI{before: func(*http.Request) error {
				if n++; n <= 2 {
					panic("the transport has a bug")
				}
				return nil
			}}
			c := newFakeTill(t, api, nil)
			_, err := post(c, "a").Do(contextFor(t, time.Hour))
			require.NoError(t, err)
			require.Equal(t, 3, api.count())
		})
	})
}

// TestLimits: a full outbox refuses what is new, names the limit, and never touches what it accepted.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := offlineTill(t, func(cfg *Config) { cfg.Limits = outbox.Limits{Operations: 3} })
		for i := range 3 {
			_, err := post(c, fmt.Sprint(i)).Enqueue(t.Context())
			require.NoError(t, err)
		}
		_, err := post(c, "one too many").Enqueue(t.Context())
		require.ErrorIs(t, err, ErrOutboxFull)
		require.Equal(t, FateNotSent, FateOf(err))
		require.True(t, strings.Contains(err.Error(), "3"), err.Error())
		require.Equal(t, 3, c.Status().Waiting)
	})
}
