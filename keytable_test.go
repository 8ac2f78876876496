package flavoso

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// What a new Call does whose key is known.
const (
	existing = "the existing operation or outcome"
	reused   = "KeyReusedError"
	sameKey  = "a new operation under the same key"
	nextKey  = "a new operation under the next key"
)

// wish makes a call: content 0 is the first one, 1 another one under the same key.
type wish func(s *till, id string, content int) *Call[json.RawMessage]

var (
	acceptWish wish = func(s *till, id string, n int) *Call[json.RawMessage] {
		return rawCall(s.Orders.Accept(id, AcceptParams{PreparationMinutes: 10 + n}))
	}
	acknowledgeWish wish = func(s *till, id string, n int) *Call[json.RawMessage] {
		return rawCall(s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: fmt.Sprint("T-", n)}))
	}
	rejectWish wish = func(s *till, id string, n int) *Call[json.RawMessage] {
		return rawCall(s.Orders.Reject(id, RejectParams{Reason: ReasonOther, Message: fmt.Sprint("sorry ", n)}))
	}
	cancelWish wish = func(s *till, id string, n int) *Call[json.RawMessage] {
		return rawCall(s.Orders.Cancel(id, CancelParams{Reason: ReasonOther, Message: fmt.Sprint("sorry ", n)}))
	}
	bookingWish wish = func(s *till, id string, n int) *Call[json.RawMessage] {
		return rawCall(s.Bookings.Create(id, booking(4+n)))
	}
	explicitWish wish = func(s *till, id string, n int) *Call[json.RawMessage] {
		return NewCall[json.RawMessage](s.Client, "POST", Path("orders", id, "accept"), map[string]any{"preparation_minutes": 10 + n}).
			WithKey(Key("mine-" + id))
	}
	statusWish wish = func(s *till, id string, n int) *Call[json.RawMessage] {
		c := rawCall(s.Orders.SetStatus(id, StatusParams{Status: OrderPreparing}))
		if n > 0 { // the key names the status, so that no other content comes under it by itself
			other := rawCall(NewCall[Order](s.Client, "POST", Path("orders", id, "status"), map[string]any{"status": "preparing", "n": n}))
			c.record.Request, c.record.Fingerprint = other.record.Request, other.record.Fingerprint
		}
		return c
	}
)

// The key table: how the key's latest operation stands, and what a new Call under it is.
var keyRows = []struct {
	name string
	wish wish
	// first brings the first operation to where it stands, and returns it.
	first       func(t *testing.T, s *till, c *Call[json.RawMessage]) string
	state       State
	same, other string
	offline     bool // nothing can be sent any more afterwards
}{
	{"waiting", acceptWish, waitingOffline, StateQueued, existing, reused, true},
	{"uncertain", bookingWish, parked(StateUncertain), StateUncertain, existing, reused, true},
	{"uncertain, explicit key", explicitWish, parked(StateUncertain), StateUncertain, existing, reused, true},
	{"blocked", acceptWish, parked(StateBlocked), StateBlocked, existing, reused, true},
	{"succeeded accept", acceptWish, succeeded, StateSucceeded, existing, reused, false},
	{"succeeded acknowledge", acknowledgeWish, succeeded, StateSucceeded, existing, reused, false},
	{"succeeded reject", rejectWish, succeeded, StateSucceeded, existing, reused, false},
	{"succeeded cancel", cancelWish, succeeded, StateSucceeded, existing, reused, false},
	{"succeeded booking", bookingWish, succeeded, StateSucceeded, existing, reused, false},
	{"succeeded, explicit key", explicitWish, succeeded, StateSucceeded, existing, reused, false},
	{"succeeded status", statusWish, succeeded, StateSucceeded, nextKey, nextKey, false},
	{"rejected by a clean conflict", acceptWish, rejected(409, "conflict"), StateRejected, sameKey, nextKey, false},
	{"rejected by a clean conflict, booking", bookingWish, rejected(409, "conflict"), StateRejected, sameKey, nextKey, false},
	{"rejected by a clean conflict, explicit key", explicitWish, rejected(409, "conflict"), StateRejected, sameKey, nextKey, false},
	{"rejected otherwise", acceptWish, rejected(404, "not_found"), StateRejected, nextKey, nextKey, false},
	{"rejected otherwise, booking", bookingWish, rejected(422, "validation_failed"), StateRejected, nextKey, nextKey, false},
	{"rejected otherwise, explicit key", explicitWish, rejected(422, "validation_failed"), StateRejected, existing, reused, false},
	{"canceled", acceptWish, canceled, StateCanceled, sameKey, sameKey, false},
	{"canceled, explicit key", explicitWish, canceled, StateCanceled, sameKey, sameKey, false},
	{"expired", bookingWish, expired, StateExpired, sameKey, sameKey, false},
	{"abandoned", acceptWish, abandoned, StateAbandoned, sameKey, reused, false},
	{"abandoned, not repeat-safe", bookingWish, abandoned, StateAbandoned, existing, reused, false},
}

// since is what happens between the first call and the second.
var since = []struct {
	name   string
	purged bool
	pass   func(t *testing.T, s *till, id string)
}{
	{"at once", false, func(*testing.T, *till, string) {}},
	{"after a restart", false, func(_ *testing.T, s *till, _ string) { s.restart() }},
	{"after acknowledgement", false, func(t *testing.T, s *till, id string) {
		_ = s.Operations.Ack(t.Context(), id) // what has no outcome yet has nothing to acknowledge
	}},
	{"after purge", true, func(t *testing.T, s *till, id string) {
		require.NoError(t, s.Operations.Ack(t.Context(), id))
		time.Sleep(26 * time.Hour)
		_, err := s.Operations.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound, "only the tombstone is left")
	}},
	{"after purge and a restart", true, func(t *testing.T, s *till, id string) {
		require.NoError(t, s.Operations.Ack(t.Context(), id))
		time.Sleep(26 * time.Hour)
		s.restart()
		_, err := s.Operations.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound)
	}},
}

func TestKeyTable(t *testing.T) {
	for _, row := range keyRows {
		for _, then := range since {
			if then.purged && (row.state.Waiting() || row.state.Parked()) {
				continue // these are never purged
			}
			for content, want := range []string{row.same, row.other} {
				t.Run(fmt.Sprintf("%s/%s/%s", row.name, then.name, [...]string{"same content", "other content"}[content]), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newTill(t, func(c *Config) {
							c.KeepFinished = 24 * time.Hour
							if !strings.Contains(then.name, "restart") {
								inMemory(c) // a file proves nothing here, and takes its time
							}
						})
						id := s.srv.AddOrder(store, patient())
						first := row.wish(s, id, 0)
						firstID := row.first(t, s, first)
						require.Equal(t, row.state, s.record(firstID).State)
						then.pass(t, s, firstID)
						second := row.wish(s, id, content)
						if row.offline {
							p, err := second.Enqueue(t.Context())
							requireDecision(t, s, want, second, first, firstID, p, err)
							return
						}
						before := len(posts(s.srv))
						p, err := second.Enqueue(t.Context())
						requireDecision(t, s, want, second, first, firstID, p, err)
						if err == nil {
							_, err = p.Wait(forHours(t, 1))
						}
						sent := posts(s.srv)[before:]
						switch want {
						case existing:
							require.Empty(t, sent, "nothing went on the wire")
							requireSameFate(t, row.state, err)
							_, err = row.wish(s, id, content).Do(t.Context())
							requireSameFate(t, row.state, err)
						case reused:
							require.Empty(t, sent, "nothing went on the wire")
						case sameKey:
							require.NotEmpty(t, sent)
							require.Equal(t, string(first.Key()), sent[0].Key)
						case nextKey:
							require.NotEmpty(t, sent)
							require.Equal(t, string(first.Key())+"~2", sent[0].Key)
						}
					})
				})
			}
		}
	}
}

func requireDecision(t *testing.T, s *till, want string, second, first *Call[json.RawMessage], firstID string, p *Pending[json.RawMessage], err error) {
	t.Helper()
	switch want {
	case reused:
		var e *KeyReusedError
		require.ErrorAs(t, err, &e)
		require.Equal(t, firstID, e.OperationID, "it names the operation that has the key")
		require.Equal(t, first.Key(), e.Key)
		require.Equal(t, FateNotSent, FateOf(err))
	case existing:
		require.NoError(t, err)
		require.Equal(t, firstID, p.ID())
	default:
		require.NoError(t, err)
		require.NotEqual(t, firstID, p.ID())
		require.Equal(t, second.record.ID, p.ID())
	}
}

// requireSameFate proves that an existing outcome is told as the first time, also when only its tombstone
// is left.
func requireSameFate(t *testing.T, state State, err error) {
	t.Helper()
	var decode *DecodeError
	switch state {
	case StateSucceeded:
		require.Equal(t, FateDone, FateOf(err), "%v", err)
		require.True(t, err == nil || errors.As(err, &decode), "%v", err)
	case StateRejected:
		require.Equal(t, FateRefused, FateOf(err), "%v", err)
	case StateAbandoned:
		require.Equal(t, FateUnknown, FateOf(err), "it may have been sent: %v", err)
	}
}

func waitingOffline(t *testing.T, s *till, c *Call[json.RawMessage]) string {
	s.srv.Inject(mockserver.Refuse())
	p := enqueue(t, c)
	time.Sleep(time.Minute)
	return p.ID()
}

func parked(state State) func(*testing.T, *till, *Call[json.RawMessage]) string {
	return func(t *testing.T, s *till, c *Call[json.RawMessage]) string {
		id := waitingOffline(t, s, c)
		_, err := s.engine.Set(t.Context(), outbox.Change{ID: id, Action: outbox.Park, To: state, Now: time.Now(), Result: &outbox.Result{Reason: "test"}})
		require.NoError(t, err)
		return id
	}
}

func succeeded(t *testing.T, s *till, c *Call[json.RawMessage]) string {
	if c.record.Kind == kindOrderStatus {
		_, err := s.Orders.Accept(c.record.Resource, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
	}
	_, err := c.Do(t.Context())
	require.NoError(t, err)
	return c.record.ID
}

func rejected(status int, code string) func(*testing.T, *till, *Call[json.RawMessage]) string {
	return func(t *testing.T, s *till, c *Call[json.RawMessage]) string {
		s.srv.Inject(mockserver.Status(status).Code(code).On("POST", "").Times(1))
		_, err := c.Do(t.Context())
		require.Equal(t, FateRefused, FateOf(err))
		return c.record.ID
	}
}

func canceled(t *testing.T, s *till, c *Call[json.RawMessage]) string {
	refuse := s.srv.Inject(mockserver.Refuse())
	p := enqueue(t, c)
	time.Sleep(time.Minute)
	require.NoError(t, s.Operations.Cancel(t.Context(), p.ID()))
	refuse.Remove()
	s.Wake()
	time.Sleep(time.Minute)
	return p.ID()
}

func expired(t *testing.T, s *till, c *Call[json.RawMessage]) string {
	refuse := s.srv.Inject(mockserver.Refuse())
	p := enqueue(t, c.WithExpiry(time.Minute))
	_, err := p.Wait(forHours(t, 1))
	require.ErrorIs(t, err, ErrExpired)
	refuse.Remove()
	s.Wake()
	time.Sleep(time.Minute)
	return p.ID()
}

func abandoned(t *testing.T, s *till, c *Call[json.RawMessage]) string {
	drop := s.srv.Inject(mockserver.Reset().On("POST", ""))
	p := enqueue(t, c)
	time.Sleep(2 * time.Second)
	for s.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: Abandon}) != nil {
		time.Sleep(time.Millisecond)
	}
	drop.Remove()
	time.Sleep(time.Minute)
	return p.ID()
}

// TestSameContentInOtherBytes: a newer encoder's bytes are the same wish; what was frozen is what is sent.
func TestSameContentInOtherBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		id := s.srv.AddOrder(store, patient())
		path := Path("orders", id, "accept")
		first := NewCall[Order](s.Client, "POST", path, json.RawMessage(`{"preparation_minutes":20,"x":1.0}`)).WithKey("k")
		p := enqueue(t, first)
		same := enqueue(t, NewCall[Order](s.Client, "POST", path, json.RawMessage(`{ "x" : 1.0, "preparation_minutes" : 20 }`)).WithKey("k"))
		require.Equal(t, p.ID(), same.ID())
		_, err := NewCall[Order](s.Client, "POST", path, json.RawMessage(`{"preparation_minutes":21,"x":1.0}`)).WithKey("k").Enqueue(t.Context())
		require.ErrorIs(t, err, ErrKeyReused)
		_, err = NewCall[Order](s.Client, "POST", path+"?a=b", json.RawMessage(`{"preparation_minutes":20,"x":1.0}`)).WithKey("k").Enqueue(t.Context())
		require.ErrorIs(t, err, ErrKeyReused, "another target is another wish")
		synctest.Wait() // the first attempt has been refused
		refuse.Remove()
		s.Wake()
		_, _ = p.Wait(forHours(t, 1))
		require.JSONEq(t, `{"preparation_minutes":20,"x":1.0}`, string(posts(s.srv)[0].Body))
		require.Equal(t, string(first.record.Request.Body), string(posts(s.srv)[0].Body))
	})
}

// TestTombstonesEnd: 48 hours after the record is gone, and 400 days for what is not repeat-safe (S15).
func TestTombstonesEnd(t *testing.T) {
	for _, tc := range []struct {
		name string
		wish wish
		keep time.Duration
	}{
		{"repeat-safe", acceptWish, 48 * time.Hour},
		{"not repeat-safe", bookingWish, 400 * 24 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, func(c *Config) { c.KeepFinished = time.Hour })
				id := s.srv.AddOrder(store, patient())
				_, err := tc.wish(s, id, 0).Do(t.Context())
				require.NoError(t, err)
				time.Sleep(tc.keep - 2*time.Hour)
				_, err = tc.wish(s, id, 1).Enqueue(t.Context())
				require.ErrorIs(t, err, ErrKeyReused)
				before := len(posts(s.srv))
				time.Sleep(8 * time.Hour) // it counts from when its record was removed
				_, err = tc.wish(s, id, 1).Do(t.Context())
				require.NotErrorIs(t, err, ErrKeyReused)
				require.Len(t, posts(s.srv), before+1)
			})
		})
	}
}

// TestRecallDoesNotWaitForTheNetwork: what only a tombstone remembers is told also while offline, and
// Enqueue does not read at all.
func TestRecallDoesNotWaitForTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, func(c *Config) { c.KeepFinished = time.Hour })
		_, err := s.Bookings.Create("17", booking(4)).Do(t.Context())
		require.NoError(t, err)
		time.Sleep(26 * time.Hour)
		refuse := s.srv.Inject(mockserver.Refuse())
		began := time.Now()
		p, err := s.Bookings.Create("17", booking(4)).Enqueue(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		_, err = p.Wait(t.Context())
		require.Equal(t, FateDone, FateOf(err))
		require.Less(t, time.Since(began), 10*time.Second)

		refuse.Remove()
		got, err := p.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, "17", got.ExternalID)
		require.Len(t, posts(s.srv), 1)
	})
}
