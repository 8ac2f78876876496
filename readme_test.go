package flavoso_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

// The code that the README shows, in a till that runs. dev/docs compares the two.

// till shows and prints.
type till struct {
	baseURL, token, path string

	mu      sync.Mutex
	screen  []string
	tickets []string
}

func (pos *till) show(line string) {
	pos.mu.Lock()
	defer pos.mu.Unlock()
	pos.screen = append(pos.screen, line)
}

func (pos *till) print(o *flavoso.Order) {
	pos.mu.Lock()
	defer pos.mu.Unlock()
	pos.tickets = append(pos.tickets, o.ID)
}

func (pos *till) tags() []string {
	pos.mu.Lock()
	defer pos.mu.Unlock()
	return append([]string(nil), pos.screen...)
}

// open opens the client as the README does.
func (pos *till) open() (*flavoso.Client, error) {
	client, err := flavoso.Open(flavoso.Config{
		Connection: "store-42",
		Token:      flavoso.StaticToken(pos.token),
		OutboxPath: pos.path,
		BaseURL:    pos.baseURL, // left out: Flavoso itself
	})
	if err != nil {
		return nil, err
	}
	return client, nil
}

// accept accepts an order and tells the person at the till what became of it.
func (pos *till) accept(ctx context.Context, client *flavoso.Client, orderID string) {
	order, err := client.Orders.Accept(orderID, flavoso.AcceptParams{PreparationMinutes: 20}).Do(ctx)
	switch flavoso.FateOf(err) {
	case flavoso.FateDone:
		if err != nil {
			pos.show("do not cook it: " + err.Error())
			return
		}
		pos.print(order)
	case flavoso.FateUnknown:
		pos.show("on its way")
	case flavoso.FateRefused:
		pos.show("Flavoso says no: " + err.Error())
	case flavoso.FateNotSent:
		pos.show("not sent: " + err.Error())
	}
}

func startTill(t *testing.T, srv *mockserver.Server) (*till, *flavoso.Client) {
	pos := &till{baseURL: srv.BaseURL(), token: srv.Token("store-42"), path: filepath.Join(t.TempDir(), "pos.outbox")}
	client, err := pos.open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return pos, client
}

func TestTheReadmesTillKnowsEveryFate(t *testing.T) {
	srv := mockserver.Start(t)
	pos, client := startTill(t, srv)
	pos.accept(t.Context(), client, srv.AddOrder("store-42", mockserver.Order{}))
	require.Len(t, pos.tickets, 1)

	pos.accept(t.Context(), client, srv.AddOrder("store-42", mockserver.Order{Status: mockserver.StatusCancelled}))
	pos.accept(t.Context(), client, "no-such-order")
	pos.accept(t.Context(), client, "")
	srv.Inject(mockserver.RateLimit(time.Hour).On("POST", "/orders/{id}/accept").Times(1))
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	pos.accept(soon, client, srv.AddOrder("store-42", mockserver.Order{}))

	require.Len(t, pos.tickets, 1)
	require.Len(t, pos.screen, 4)
	for i, begins := range []string{"do not cook it", "Flavoso says no", "not sent", "on its way"} {
		require.Contains(t, pos.screen[i], begins)
	}
}

func TestTheReadmesOutcomesComeAfterARestart(t *testing.T) {
	srv := mockserver.Start(t)
	pos := &till{baseURL: srv.BaseURL(), token: srv.Token("store-42"), path: filepath.Join(t.TempDir(), "pos.outbox")}
	ctx, orderID := t.Context(), srv.AddOrder("store-42", mockserver.Order{})
	offline := srv.Inject(mockserver.Reset().Optional()) // the client may be closed before its first attempt
	client, err := pos.open()
	require.NoError(t, err)
	pending, err := client.Orders.Accept(orderID, flavoso.AcceptParams{}).WithTag("ticket 17").Enqueue(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, pending.ID())
	require.NoError(t, client.Close())
	offline.Remove()

	cfg := flavoso.Config{Connection: "store-42", Token: flavoso.StaticToken(pos.token), OutboxPath: pos.path, BaseURL: pos.baseURL}
	cfg.OnOutcome = func(ctx context.Context, c *flavoso.Client, o flavoso.Outcome) error {
		if o.Kind != "orders.accept" {
			return nil
		}
		_, err := flavoso.Result[flavoso.Order](o)
		text := flavoso.FateOf(err).String()
		if err != nil {
			text += ": " + err.Error()
		}
		pos.show(o.Tag + " " + text)
		return nil
	}
	client, err = flavoso.Open(cfg)
	require.NoError(t, err)
	defer client.Close()
	require.Eventually(t, func() bool { return len(pos.tags()) > 0 }, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, []string{"ticket 17 done"}, pos.tags())
	srv.AssertExactlyOnce(t, "orders.accept", orderID)
}

func TestAcceptSurvivesALostAnswer(t *testing.T) {
	srv := mockserver.Start(t)
	id := srv.AddOrder("store-42", mockserver.Order{})
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))

	pos, client := startTill(t, srv)
	pos.accept(t.Context(), client, id)

	srv.AssertExactlyOnce(t, "orders.accept", id)
	srv.AssertSameBytes(t, "accept-"+id)
}
