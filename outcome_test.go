package flavoso

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// delivered notes what OnOutcome was given.
type delivered struct {
	mu  sync.Mutex
	all []Outcome
}

func (d *delivered) note(o Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, o)
}

func (d *delivered) tags() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []string{}
	for _, o := range d.all {
		out = append(out, o.Tag)
	}
	return out
}

// outcomes returns what was given so far.
func (d *delivered) outcomes() []Outcome {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Outcome(nil), d.all...)
}

func (d *delivered) times(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, o := range d.all {
		if o.ID == id {
			n++
		}
	}
	return n
}

// TestOnOutcomeIsCalledUntilItIsTaken: an error, a panic and runtime.Goexit all mean 'again later', and
// other lanes go on meanwhile.
func TestOnOutcomeIsCalledUntilItIsTaken(t *testing.T) {
	ways := map[string]func() error{
		"error":  func() error { return errors.New("the database is locked") },
		"panic":  func() error { panic("a bug in the app") },
		"goexit": func() error { runtime.Goexit(); return nil },
	}
	for name, refuse := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got delivered
				tries := 0
				c := newFakeTill(t, &fakeAPI{}, func(cfg *Config) {
					cfg.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error {
						if o.Lane == "bad" {
							if tries++; tries <= 4 {
								return refuse()
							}
						}
						got.note(o)
						return nil
					}
				})
				for i := range 3 {
					_, err := post(c, "bad").WithTag(fmt.Sprintf("bad-%d", i)).Enqueue(t.Context())
					require.NoError(t, err)
					_, err = post(c, "good").WithTag(fmt.Sprintf("good-%d", i)).Enqueue(t.Context())
					require.NoError(t, err)
				}
				require.NoError(t, c.Flush(t.Context()))
				synctest.Wait()
				require.Equal(t, []string{"good-0", "good-1", "good-2"}, got.tags(), "other lanes go on at once")
				time.Sleep(3 * time.Minute)
				require.Equal(t, []string{"good-0", "good-1", "good-2", "bad-0", "bad-1", "bad-2"}, got.tags(), "in the order of the lane")
				counts, err := c.engine.Counts(t.Context(), store)
				require.NoError(t, err)
				require.Zero(t, counts.Unacked)
			})
		})
	}
}

// TestStuckOutcomesDoNotSlowOthersDown: thousands of outcomes that the application does not take are not
// read again and again for each new one.
func TestStuckOutcomesDoNotSlowOthersDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &listCounter{Engine: outbox.NewMemory()}
		var got delivered
		c := newFakeTill(t, &fakeAPI{}, func(cfg *Config) {
			cfg.Outbox = engine
			cfg.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error {
				if o.Lane == "bad" {
					return errors.New("not now")
				}
				got.note(o)
				return nil
			}
		})
		for range 1_000 {
			_, err := post(c, "bad").Do(t.Context())
			require.NoError(t, err)
		}
		synctest.Wait()
		before := engine.read()
		for i := range 100 {
			_, err := post(c, "good").WithTag(fmt.Sprint(i)).Do(t.Context())
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Len(t, got.tags(), 100)
		require.Less(t, engine.read()-before, 5_000, "records read for 100 new outcomes behind 1 000 stuck ones")
	})
}

// listCounter counts the records that List returned for the queries that count selects; nil = all.
type listCounter struct {
	outbox.Engine
	count func(q outbox.Query) bool
	mu    sync.Mutex
	n     int
}

func (l *listCounter) List(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	p, err := l.Engine.List(ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil || l.count(q) {
		l.n += len(p.Records)
	}
	return p, err
}

func (l *listCounter) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// TestOutcomesComeInLaneOrderAndOverRestarts: what was not taken before a restart is handed over after it.
func TestOutcomesComeInLaneOrderAndOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got delivered
		var mu sync.Mutex
		take := false
		s := newTill(t, func(c *Config) {
			c.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error {
				mu.Lock()
				defer mu.Unlock()
				if !take {
					return errors.New("the kitchen printer is off")
				}
				got.note(o)
				return nil
			}
		})
		want := map[string][]string{}
		for l := range 3 {
			id := s.srv.AddOrder(store, mockserver.Order{})
			lane := "order:" + id
			for i, call := range []*Call[Order]{
				s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T"}), s.Orders.Accept(id, AcceptParams{}), s.Orders.Accept("missing", AcceptParams{}).WithKey(Key(fmt.Sprint("k", l))).WithLane(lane),
			} {
				tag := fmt.Sprintf("%d.%d", l, i)
				_, err := call.WithTag(tag).Enqueue(t.Context())
				require.NoError(t, err)
				want[lane] = append(want[lane], tag)
			}
		}
		require.NoError(t, s.Flush(t.Context()))
		time.Sleep(time.Hour)
		require.Empty(t, got.tags())
		s.restart()
		mu.Lock()
		take = true
		mu.Unlock()
		time.Sleep(3 * time.Minute)
		lanes := map[string][]string{}
		for _, o := range got.outcomes() {
			require.Equal(t, 1, o.Revision)
			require.True(t, o.Durable)
			lanes[o.Lane] = append(lanes[o.Lane], o.Tag)
		}
		require.Equal(t, want, lanes)
		s.restart()
		time.Sleep(time.Hour)
		require.Len(t, got.tags(), 9, "what was taken is not handed over again")
	})
}

// TestEveryRevisionIsHandedOver: uncertain, and resolved later, are two outcomes of one operation.
func TestEveryRevisionIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got delivered
		api := &fakeAPI{before: func(*http.Request) error { return errors.New("reset") }}
		c := newFakeTill(t, api, func(cfg *Config) {
			cfg.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error { got.note(o); return nil }
		})
		p, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(30 * time.Hour)
		require.Equal(t, 1, got.times(p.ID()))
		require.Equal(t, StateUncertain, got.outcomes()[0].State)
		_, err = Result[thing](got.outcomes()[0])
		require.ErrorIs(t, err, ErrUncertain)
		require.NoError(t, c.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: Done, Body: []byte(`{"id":"7"}`), Note: "seen in the back office"}))
		synctest.Wait()
		require.Equal(t, 2, got.times(p.ID()))
		last := got.outcomes()[1]
		require.Equal(t, 2, last.Revision)
		require.Equal(t, "seen in the back office", last.Note)
		v, err := Result[thing](last)
		require.NoError(t, err)
		require.Equal(t, "7", v.ID)
	})
}

// TestDoInsideOnOutcome: the usual thing to do about an outcome is the next operation.
func TestDoInsideOnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got delivered
		s := newTill(t, func(c *Config) {
			c.OnOutcome = func(ctx context.Context, c *Client, o Outcome) error {
				got.note(o)
				if o.Kind != "orders.accept" {
					return nil
				}
				_, err := c.Orders.Acknowledge(o.Resource, AcknowledgeParams{ExternalID: "T-" + o.Tag}).Do(ctx)
				return err
			}
		})
		for i := range 3 {
			_, err := s.Orders.Accept(s.srv.AddOrder(store, mockserver.Order{}), AcceptParams{}).WithTag(fmt.Sprint(i)).Enqueue(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, s.Flush(t.Context()))
		time.Sleep(time.Minute)
		require.Len(t, got.tags(), 6)
		require.Len(t, s.srv.Effects(), 6)
	})
}

// TestCloseInsideOnOutcome does not deadlock, and the outcome, whose taking over could not be noted, comes
// again.
func TestCloseInsideOnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got delivered
		closed := make(chan error, 10)
		s := newTill(t, func(c *Config) {
			c.OnOutcome = func(_ context.Context, c *Client, o Outcome) error {
				got.note(o)
				if len(got.tags()) == 1 {
					closed <- c.Close()
				}
				return nil
			}
		})
		p, err := s.Orders.Accept(s.srv.AddOrder(store, mockserver.Order{}), AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-closed)
		s.open()
		time.Sleep(time.Minute)
		require.Equal(t, 2, got.times(p.ID()))
	})
}

// TestOnOutcomeThatHangsDoesNotHoldClose: its context ends, and Close does not wait for it.
func TestOnOutcomeThatHangsDoesNotHoldClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := make(chan struct{}), make(chan struct{})
		c := newFakeTill(t, &fakeAPI{}, func(cfg *Config) {
			cfg.OnOutcome = func(ctx context.Context, _ *Client, _ Outcome) error {
				close(in)
				<-ctx.Done()
				<-out
				return nil
			}
		})
		_, err := post(c, "a").Do(t.Context())
		require.NoError(t, err)
		<-in
		require.NoError(t, c.Close())
		close(out)
	})
}

// TestRetention: what is over and taken over is removed after KeepFinished. What nobody has seen yet and
// what waits for a decision stays.
func TestRetention(t *testing.T) {
	run := func(t *testing.T, onOutcome func(context.Context, *Client, Outcome) error, want map[string]bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{
				before: func(r *http.Request) error {
					time.Sleep(time.Millisecond) // until everything is saved
					if strings.HasSuffix(r.URL.Path, "/lost") {
						return errors.New("reset")
					}
					return nil
				},
				status: func(r *http.Request) int {
					if strings.HasSuffix(r.URL.Path, "/refused") {
						return 422
					}
					return 200
				},
			}
			path := filepath.Join(t.TempDir(), "pos.outbox")
			c := newFakeTill(t, api, func(cfg *Config) {
				cfg.OnOutcome, cfg.Outbox, cfg.OutboxPath, cfg.KeepFinished = onOutcome, nil, path, 36*time.Hour
			})
			ids := map[string]string{}
			for _, lane := range []string{"done", "refused", "lost"} {
				p, err := post(c, lane).Enqueue(t.Context())
				require.NoError(t, err)
				ids[lane] = p.ID()
			}
			stopped, err := post(c, "refused").WithLane("stopped").StopLaneOnReject().Enqueue(t.Context())
			require.NoError(t, err)
			blocked, err := post(c, "blocked").WithLane("stopped").Enqueue(t.Context())
			require.NoError(t, err)
			ids["blocked"], ids["stopped"] = blocked.ID(), stopped.ID()
			time.Sleep(30 * time.Hour) // past the window: what was lost is uncertain
			for name, id := range ids {
				_, err := c.Operations.Get(t.Context(), id)
				require.NoError(t, err, "%s within KeepFinished", name)
			}
			time.Sleep(40 * time.Hour)
			kept := map[string]bool{}
			for name, id := range ids {
				_, err := c.Operations.Get(t.Context(), id)
				kept[name] = err == nil
			}
			require.Equal(t, want, kept)

			for name, id := range ids {
				if name != "lost" && name != "blocked" && kept[name] {
					require.NoError(t, c.Operations.Ack(t.Context(), id))
				}
			}
			time.Sleep(2 * time.Hour)
			for _, name := range []string{"done", "refused", "stopped"} {
				_, err := c.Operations.Get(t.Context(), ids[name])
				require.ErrorIs(t, err, ErrNotFound, "%s once it was seen", name)
			}
			for _, name := range []string{"lost", "blocked"} {
				_, err := c.Operations.Get(t.Context(), ids[name])
				require.NoError(t, err, "%s waits for a decision", name)
			}
		})
	}
	t.Run("an application that takes outcomes", func(t *testing.T) {
		run(t, func(context.Context, *Client, Outcome) error { return nil },
			map[string]bool{"done": false, "refused": false, "stopped": false, "lost": true, "blocked": true})
	})
	t.Run("an application that takes none", func(t *testing.T) {
		run(t, func(context.Context, *Client, Outcome) error { return errors.New("no") },
			map[string]bool{"done": true, "refused": true, "stopped": true, "lost": true, "blocked": true})
	})
	t.Run("an application without OnOutcome", func(t *testing.T) {
		run(t, nil, map[string]bool{"done": false, "refused": true, "stopped": true, "lost": true, "blocked": true})
	})
}
