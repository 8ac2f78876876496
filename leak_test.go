package flavoso

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// logBook keeps every log record, at every level.
type logBook struct {
	mu      sync.Mutex
	records []slog.Record
}

func (*logBook) Enabled(context.Context, slog.Level) bool { return true }
func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, r.Clone())
	return nil
}
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler { return b }
func (b *logBook) WithGroup(string) slog.Handler      { return b }

// secrets are what a log must not hold, wherever it comes from.
type secrets struct {
	guest, phone, tag, note, ref string
	tokens                       []string
	keys                         []string
}

func (s *secrets) all() []string {
	return append(append([]string{s.guest, s.phone, s.tag, s.note, s.ref}, s.tokens...), s.keys...)
}

// troubles have a client meet what it logs about. Each returns when the client has said all it has to say.
var troubles = map[string]func(t *testing.T, book *logBook, secret *secrets){
	"the network and Flavoso": func(t *testing.T, book *logBook, secret *secrets) {
		v := &vault{stale: secret.tokens[0]}
		s := newTill(t, func(c *Config) {
			c.Logger, c.Token = slog.New(book), v
			c.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error {
				if o.State == StateRejected {
					panic("no") // and again and again
				}
				return nil
			}
		})
		secret.tokens = append(secret.tokens, s.srv.Token(store))
		v.mu.Lock()
		v.current = s.srv.Token(store)
		v.mu.Unlock()
		for i, f := range []mockserver.Fault{
			mockserver.Reset(), mockserver.DropResponse(), mockserver.Status(503), mockserver.Portal(), mockserver.ProxyError(),
			mockserver.Status(403), mockserver.Truncate(10), mockserver.Status(409).Code("conflict"), mockserver.Status(301),
			mockserver.Status(400).Body(`{"error":{"code":"validation_failed","message":"` + secret.guest + ` is not a name"}}`),
			mockserver.Status(418).Body(secret.guest), mockserver.Hang(), mockserver.RateLimit(time.Minute), mockserver.CrashAfterCommit(),
			mockserver.Status(422).Code("idempotency_key_reused"), mockserver.Status(401), mockserver.UnknownEnum(),
		} {
			s.srv.Inject(f.On("POST", "").Times(1).Optional())
			call := s.Bookings.Create(fmt.Sprint(secret.ref, "-", i), secret.booking()).WithTag(secret.tag)
			secret.keys = append(secret.keys, string(call.Key()))
			_, _ = call.Do(contextFor(t, 10*time.Minute)) // every outcome is welcome
			_, _ = s.Orders.Accept("no-such-order", AcceptParams{}).Do(contextFor(t, 10*time.Minute))
		}
		for _, err := range s.Bookings.List(contextFor(t, time.Minute), ListBookingsParams{ExternalID: secret.ref}) {
			require.NoError(t, err)
		}
		refuse := s.srv.Inject(mockserver.Refuse())
		enqueue(t, s.Bookings.Create(secret.ref+"-offline", secret.booking()))
		time.Sleep(time.Hour)
		refuse.Remove()
		require.NoError(t, s.Flush(forHours(t, 3)))
		v.set(secret.tokens[1])
		enqueue(t, s.Bookings.Create(secret.ref+"-refused", secret.booking()))
		time.Sleep(time.Hour)
		require.True(t, s.Status().AuthRequired)
		require.NoError(t, s.Close())
		s.cfg.Connection, s.cfg.Token = "another", StaticToken(s.srv.Token("another"))
		s.open()
	},
	"a watch": func(t *testing.T, book *logBook, secret *secrets) {
		s := newTill(t, func(c *Config) { c.Logger = slog.New(book) }, mockserver.WithSwitches(calm))
		s.srv.AddOrders(store, 3)
		n := 0
		w := s.watch(WatchParams{Name: "kitchen"}, func(o *Order) error {
			switch n++; {
			case n == 1:
				panic("a bug")
			case n == 2:
				return errors.New("the printer is out of paper")
			}
			return nil
		})
		time.Sleep(time.Minute)
		s.srv.Inject(mockserver.Status(200).Body(`{"object":"list","data":[{"id":"","customer":{"name":"`+secret.guest+`"}}],"next_cursor":null}`).On("GET", "/orders").Times(1))
		s.srv.Inject(mockserver.Portal().On("GET", "/orders").Times(2))
		time.Sleep(10 * time.Minute)
		require.ErrorIs(t, w.stop(), context.Canceled)
	},
	"what the application gave": func(t *testing.T, book *logBook, secret *secrets) {
		var mu sync.Mutex
		n := 0
		s := newTill(t, func(c *Config) {
			token := c.Token
			c.Logger = slog.New(book)
			c.Hooks.AttemptStart = func(context.Context, Outcome) context.Context { panic("a bug") }
			c.Token = TokenFunc(func(ctx context.Context, r TokenRequest) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				switch n++; n {
				case 1:
					panic("a bug")
				case 2:
					return "", errors.New("the vault is sealed")
				}
				return token.Token(ctx, r)
			})
			transport := c.Transport
			boom := true
			c.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
				if boom && r.Method == "POST" {
					boom = false
					panic("a bug")
				}
				return transport.RoundTrip(r)
			})
			c.Reconcile = func(context.Context, *Client, Operation) (Resolution, error) {
				return Resolution{}, errors.New("the database is down")
			}
		})
		secret.tokens = append(secret.tokens, s.srv.Token(store))
		call := NewCall[Booking](s.Client, "POST", "/bookings?note="+secret.note, secret.booking())
		secret.keys = append(secret.keys, string(call.Key()))
		_, err := call.Do(contextFor(t, time.Hour))
		require.ErrorIs(t, err, ErrPending)
		require.NotContains(t, err.Error(), secret.note)
	},
	"the storage": func(t *testing.T, book *logBook, secret *secrets) {
		f := newFaulty()
		gate := make(chan struct{})
		api := &fakeAPI{
			before: func(r *http.Request) error {
				if strings.HasSuffix(r.URL.Path, "slow") {
					<-gate
				}
				return nil
			},
			status: func(r *http.Request) int {
				if strings.HasSuffix(r.URL.Path, "rejected") {
					return 422
				}
				return 200
			},
		}
		for _, method := range []string{"Settle", "SaveState", "Claim", "Ack", "Purge", "Set"} {
			f.script(&rule{method: method, err: errDisk, times: 2})
		}
		for _, which := range []func(q outbox.Query) bool{
			func(q outbox.Query) bool { return q.ByOutcome },
			func(q outbox.Query) bool { return !q.ExpiringBefore.IsZero() },
			func(q outbox.Query) bool { return q.Lane == "rejected" },
			func(q outbox.Query) bool { return q.Connection != "" && len(q.States) == 2 && q.Limit == 0 },
		} {
			f.script(&rule{method: "List", err: errDisk, times: 1, when: func(q any) bool { return which(q.(outbox.Query)) }})
		}
		c := newFakeTill(t, api, func(cfg *Config) {
			cfg.Logger, cfg.Outbox, cfg.Token, cfg.Concurrency = slog.New(book), f, StaticToken(secret.tokens[0]), 2
			cfg.OnOutcome = func(context.Context, *Client, Outcome) error { return nil }
			cfg.Hooks.Finished = func(Outcome) {}
		})
		call := func(lane string) *Call[thing] {
			call := NewCall[thing](c, "POST", Path("things", lane), secret.booking()).WithLane(lane).WithTag(secret.tag)
			secret.keys = append(secret.keys, string(call.Key()))
			return call
		}
		enqueue(t, call("slow"))
		enqueue(t, call("slow").WithExpiry(time.Second))
		enqueue(t, call("rejected").StopLaneOnReject())
		for i := range 10 {
			enqueue(t, call("rejected"))
			enqueue(t, call(fmt.Sprint("lane-", i)))
		}
		time.Sleep(10 * time.Second)
		c.Wake()
		time.Sleep(10 * time.Second)
		close(gate)
		time.Sleep(3 * time.Hour)
	},
}

func (s *secrets) booking() BookingParams {
	return BookingParams{PartySize: 4, StartsAt: time.Date(2100, 1, 2, 19, 0, 0, 0, time.UTC), Note: s.note,
		Customer: BookingCustomer{Name: s.guest, Phone: s.phone}}
}

// TestLogsAreWhatTheListSays: in every kind of trouble, at every level, what is logged has a documented name, level
// and attributes, and holds no token, key, query, body, reference or guest's data.
func TestLogsAreWhatTheListSays(t *testing.T) {
	events := documentedEvents(t)
	seen := map[string]bool{}
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			book := &logBook{}
			secret := &secrets{guest: "Xavier-Guest-Secret", phone: "+49-30-5550123", tag: "Tag-Secret", note: "Note-Secret", ref: "ref-secret",
				tokens: []string{"secret-token-a", "secret-token-b"}}
			synctest.Test(t, func(t *testing.T) { trouble(t, book, secret) })
			book.mu.Lock()
			defer book.mu.Unlock()
			require.NotEmpty(t, book.records)
			for _, r := range book.records {
				require.Contains(t, events, r.Message)
				seen[r.Message] = true
				require.Contains(t, events[r.Message].levels, strings.ToLower(r.Level.String()), r.Message)
				line := r.Message
				var attributes []string
				r.Attrs(func(a slog.Attr) bool {
					attributes = append(attributes, a.Key)
					line += fmt.Sprintf(" %s=%v", a.Key, a.Value.Resolve())
					if err, ok := a.Value.Any().(error); ok {
						line += fmt.Sprintf(" %+v", err)
					}
					return true
				})
				require.ElementsMatch(t, events[r.Message].attributes, attributes, r.Message)
				for _, s := range secret.all() {
					require.NotContains(t, line, s)
				}
			}
		})
	}
	var missing []string
	for name := range events {
		if strings.HasPrefix(name, "flavoso.") && !seen[name] {
			missing = append(missing, name)
		}
	}
	require.LessOrEqual(t, len(missing), 4, "few events need more than that: %v", missing)
}
