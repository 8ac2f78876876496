package flavoso

import (
	"context"
	"errors"
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

// faulty is an engine in memory whose methods fail by script.
type faulty struct {
	outbox.Engine
	mu    sync.Mutex
	rules []*rule
}

// rule lets calls of one method fail.
type rule struct {
	method string
	err    error
	times  int                // how many calls; 0 = all until it is removed
	saved  bool               // the step is made all the same, and only its answer is lost
	wait   <-chan struct{}    // the call takes until this is closed
	when   func(arg any) bool // nil = always
	hits   int
}

func newFaulty(rules ...*rule) *faulty { return &faulty{Engine: outbox.NewMemory(), rules: rules} }

func (f *faulty) script(r *rule) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
	return r
}

func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

func (f *faulty) hits(r *rule) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.hits
}

func (f *faulty) find(method string, arg any) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.method == method && (r.times == 0 || r.hits < r.times) && (r.when == nil || r.when(arg)) {
			r.hits++
			return r
		}
	}
	return nil
}

func try[T any](f *faulty, method string, arg any, call func() (T, error)) (T, error) {
	r := f.find(method, arg)
	if r == nil {
		return call()
	}
	if r.wait != nil {
		<-r.wait
	}
	if r.saved || r.err == nil {
		v, err := call()
		if r.err == nil {
			return v, err
		}
	}
	var none T
	return none, r.err
}

func (f *faulty) Add(ctx context.Context, a outbox.Addition) (outbox.Added, error) {
	return try(f, "Add", a, func() (outbox.Added, error) { return f.Engine.Add(ctx, a) })
}
func (f *faulty) Claim(ctx context.Context, q outbox.ClaimRequest) ([]outbox.Record, error) {
	return try(f, "Claim", q, func() ([]outbox.Record, error) { return f.Engine.Claim(ctx, q) })
}
func (f *faulty) Settle(ctx context.Context, s ...outbox.Settlement) ([]outbox.Settled, error) {
	return try(f, "Settle", s[0], func() ([]outbox.Settled, error) { return f.Engine.Settle(ctx, s...) })
}
func (f *faulty) Set(ctx context.Context, c outbox.Change) (outbox.Record, error) {
	return try(f, "Set", c, func() (outbox.Record, error) { return f.Engine.Set(ctx, c) })
}
func (f *faulty) Get(ctx context.Context, id string) (outbox.Record, error) {
	return try(f, "Get", id, func() (outbox.Record, error) { return f.Engine.Get(ctx, id) })
}
func (f *faulty) List(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return try(f, "List", q, func() (outbox.Page, error) { return f.Engine.List(ctx, q) })
}
func (f *faulty) Counts(ctx context.Context, c string) (outbox.Counts, error) {
	return try(f, "Counts", c, func() (outbox.Counts, error) { return f.Engine.Counts(ctx, c) })
}
func (f *faulty) NextDue(ctx context.Context, s outbox.Scope) (time.Time, bool, error) {
	ok := false
	at, err := try(f, "NextDue", s, func() (time.Time, error) {
		t, found, err := f.Engine.NextDue(ctx, s)
		ok = found
		return t, err
	})
	return at, ok && err == nil, err
}
func (f *faulty) Ack(ctx context.Context, id string, revision int) error {
	_, err := try(f, "Ack", id, func() (struct{}, error) { return struct{}{}, f.Engine.Ack(ctx, id, revision) })
	return err
}
func (f *faulty) Purge(ctx context.Context, p outbox.PurgeRequest) (int, error) {
	return try(f, "Purge", p, func() (int, error) { return f.Engine.Purge(ctx, p) })
}
func (f *faulty) SaveState(ctx context.Context, c, name string, v []byte) error {
	_, err := try(f, "SaveState", name, func() (struct{}, error) { return struct{}{}, f.Engine.SaveState(ctx, c, name, v) })
	return err
}

var (
	errDisk    = fmt.Errorf("%w: input/output error", outbox.ErrFault)
	errUnknown = &outbox.SaveError{Err: errors.New("fdatasync: input/output error")}
	errFull    = &outbox.FullError{Limit: "disk", Err: errors.New("no space left on device")}
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

func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestContextEnds in every phase of a Do: before anything is saved nothing happens; later the operation
// goes on without its caller.
func TestContextEnds(t *testing.T) {
	t.Run("before saving", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{}
			c := newFakeTill(t, api, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("the guest left"))
			_, err := post(c, "a").Do(ctx)
			require.Equal(t, FateNotSent, FateOf(err))
			require.ErrorContains(t, err, "the guest left")
			time.Sleep(time.Minute)
			require.Zero(t, api.count())
		})
	})
	t.Run("while saving", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			f, api := newFaulty(&rule{method: "Add", wait: gate}), &fakeAPI{}
			c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = f })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			call := post(c, "a")
			go func() {
				_, err := call.Do(ctx)
				done <- err
			}()
			synctest.Wait()
			cancel()
			synctest.Wait()
			require.Empty(t, done, "the commit is awaited: the answer is definite")
			close(gate)
			err := <-done
			if err != nil { // the engine looked at the context before its step
				require.Equal(t, FateNotSent, FateOf(err), "%v", err)
				require.ErrorIs(t, err, context.Canceled)
			}
			time.Sleep(time.Minute)
			require.Zero(t, api.count())
		})
	})
	t.Run("while sending", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{before: func(r *http.Request) error {
				select {
				case <-time.After(10 * time.Second):
					return nil
				case <-r.Context().Done():
					return r.Context().Err()
				}
			}}
			c := newFakeTill(t, api, nil)
			call := post(c, "a")
			_, err := call.Do(contextFor(t, time.Second))
			var pending *PendingError
			require.ErrorAs(t, err, &pending)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, StateSent, pending.State)
			require.False(t, pending.FirstSent.IsZero())
			time.Sleep(time.Minute)
			require.Equal(t, 1, api.count(), "the attempt went on")
			o, _ := call.Outcome()
			require.Equal(t, StateSucceeded, o.State)
		})
	})
	t.Run("while waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			refuse := s.srv.Inject(mockserver.Refuse())
			id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
			call := s.Orders.Accept(id, AcceptParams{})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			_, err := call.Do(ctx)
			var pending *PendingError
			require.ErrorAs(t, err, &pending)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, StateQueued, pending.State)
			require.True(t, pending.FirstSent.IsZero(), "provably never sent")
			refuse.Remove()
			s.Wake()
			require.NoError(t, s.Flush(contextFor(t, time.Hour)))
			require.Len(t, s.srv.Effects(), 1)
		})
	})
}

// TestClose in every phase: it returns, its waits end, nothing is lost, and no goroutine is left (the
// bubble would not end otherwise).
func TestClose(t *testing.T) {
	phases := map[string]func(s *till, f *faulty) (release func()){
		"idle": func(*till, *faulty) func() { return nil },
		"sending": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.Hang().On("POST", "/orders/{id}/accept").Times(3))
			return nil
		},
		"offline": func(s *till, _ *faulty) func() { s.srv.Inject(mockserver.Refuse().Times(3)); return nil },
		"probing": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.Refuse().Times(1))
			s.srv.Inject(mockserver.Hang().On("GET", "/store").Times(1).Optional())
			return nil
		},
		"retrying": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept").Times(4))
			return nil
		},
		"paused": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.RateLimit(time.Minute).On("POST", "/orders/{id}/accept").Times(1))
			return nil
		},
		"saving": func(_ *till, f *faulty) func() {
			gate := make(chan struct{})
			f.script(&rule{method: "Add", wait: gate})
			return func() { close(gate) }
		},
		"settling": func(_ *till, f *faulty) func() {
			gate := make(chan struct{})
			f.script(&rule{method: "Settle", wait: gate})
			return func() { close(gate) }
		},
		"claiming": func(_ *till, f *faulty) func() {
			gate := make(chan struct{})
			f.script(&rule{method: "Claim", wait: gate})
			return func() { close(gate) }
		},
		"storage down": func(_ *till, f *faulty) func() {
			f.script(&rule{method: "Settle", err: errDisk})
			f.script(&rule{method: "Claim", err: errDisk})
			return func() {}
		},
	}
	for name, prepare := range phases {
		for _, how := range []string{"close", "shutdown"} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaulty()
					s := newTill(t, func(c *Config) {
						c.OutboxPath, c.Outbox = "", f
						c.OnOutcome = func(context.Context, *Client, Outcome) error { return nil }
					})
					release := prepare(s, f)
					var ids []string
					errs := make(chan error, 8)
					for range 4 {
						id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
						ids = append(ids, id)
						go func() {
							_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
							errs <- err
						}()
					}
					time.Sleep(700 * time.Millisecond)
					closed := make(chan error, 1)
					client := s.Client
					go func() {
						if how == "close" {
							closed <- client.Close()
						} else {
							closed <- client.Shutdown(contextFor(t, 5*time.Second))
						}
					}()
					if name != "saving" { // Close waits on a mutex then, which the bubble does not count as waiting
						synctest.Wait()
					}
					if release != nil {
						release()
					}
					if err := <-closed; err != nil {
						require.Equal(t, "shutdown", how)
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					for range ids {
						if err := <-errs; err != nil {
							require.True(t, FateOf(err) == FateUnknown || errors.Is(err, ErrClosed), "%v", err)
						}
					}
					_, err := client.Orders.Accept("x", AcceptParams{}).Do(t.Context())
					require.ErrorIs(t, err, ErrClosed)
					require.NoError(t, client.Close())
					f.heal()
					if name == "storage down" {
						return // what could not be settled stays claimed as long as the engine is open
					}
					s.open()
					for _, id := range ids {
						_, err := s.Orders.Accept(id, AcceptParams{}).Do(contextFor(t, time.Hour))
						require.NoError(t, err)
						s.srv.AssertExactlyOnce(t, "orders.accept", id)
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
