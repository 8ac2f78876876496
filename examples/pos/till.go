package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that the restaurant's zone is known on every machine

	"github.com/flavoso/flavoso-go"
)

// till is the point of sale: what an integrator writes.
type till struct {
	screen  *screen
	client  *flavoso.Client
	tickets *tickets

	stop    context.CancelFunc // ends the watch
	watched sync.WaitGroup
}

// tillConfig is where a till keeps its things and whom it talks to.
type tillConfig struct {
	dir     string
	baseURL string
	token   string
	cable   *cable
	poll    time.Duration // between two looks for orders
}

// openTill starts the till, or starts it again: what an earlier one left goes on by itself.
func openTill(ctx context.Context, cfg tillConfig, screen *screen) (*till, error) {
	known, err := openTickets(filepath.Join(cfg.dir, "tickets.json"))
	if err != nil {
		return nil, err
	}
	t := &till{screen: screen, tickets: known}
	t.client, err = flavoso.Open(flavoso.Config{
		Connection: connection,
		Token:      flavoso.StaticToken(cfg.token),
		OutboxPath: filepath.Join(cfg.dir, "pos.outbox"),
		BaseURL:    cfg.baseURL,
		Transport:  cfg.cable.transport(),
		UserAgent:  "example-pos/1.0",
		OnOutcome:  t.outcome,
	})
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	t.stop = stop
	t.watched.Go(func() {
		err := t.client.Orders.Watch(watching, flavoso.WatchParams{Name: "till", Interval: cfg.poll, IdleInterval: 2 * cfg.poll}, t.order)
		if err != nil && watching.Err() == nil && !errors.Is(err, flavoso.ErrStopped) {
			screen.say("orders are not watched any more: %v", err)
		}
	})
	t.watched.Go(func() { t.learnTimezone(watching) })
	return t, nil
}

func (t *till) close() error {
	t.stop()
	err := t.client.Close()
	t.watched.Wait()
	return err
}

// learnTimezone asks for the restaurant's zone; until then the last known one counts.
func (t *till) learnTimezone(ctx context.Context) {
	store, err := t.client.Store.Get(ctx)
	if err == nil && store.Timezone != t.tickets.timezone() {
		if err := t.tickets.setTimezone(store.Timezone); err != nil {
			t.screen.say("the restaurant's time zone could not be kept: %v", err)
		}
	}
}

// order is called for every order that comes or changes. nil = the ticket is safe.
func (t *till) order(_ context.Context, o *flavoso.Order) error {
	number, isNew, err := t.tickets.take(o, describe(o))
	if err != nil {
		return err
	}
	switch {
	case isNew:
		t.screen.say("ticket %d: %s [%s]", number, describe(o), o.Status)
	case o.Status == flavoso.OrderCancelled:
		t.screen.say("ticket %d: CANCELLED (%s). Stop cooking.", number, o.Cancellation.Reason)
	}
	return nil
}

func describe(o *flavoso.Order) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s:", o.Type, o.DisplayNumber)
	for _, it := range o.Items {
		fmt.Fprintf(&b, " %d× %s,", it.Quantity, it.Name)
	}
	fmt.Fprintf(&b, " %s", o.Totals.Total)
	if o.AllergenNote != "" {
		b.WriteString(" ALLERGIES: " + o.AllergenNote)
	}
	return b.String()
}

// outcome is called for everything that was asked of Flavoso, once it is decided; also after a restart.
func (t *till) outcome(_ context.Context, _ *flavoso.Client, o flavoso.Outcome) error {
	what := o.Tag + ": " + o.Kind
	_, err := flavoso.Result[any](o)
	var unexpected *flavoso.UnexpectedStateError
	switch fate := flavoso.FateOf(err); {
	case errors.As(err, &unexpected):
		t.screen.say("%s: the order is %s. DO NOT COOK IT.", what, unexpected.Got)
	case fate == flavoso.FateDone:
		t.screen.say("%s: done", what)
	case fate == flavoso.FateUnknown:
		t.screen.say("%s: NOBODY KNOWS. Ask Flavoso, then decide (operation %s): %v", what, o.ID, err)
	default:
		t.screen.say("%s: %v", what, err)
	}
	return nil
}

// do carries out one command and reports whether the till goes on.
func (t *till) do(ctx context.Context, line string) error {
	command, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	arg = strings.TrimSpace(arg)
	switch command {
	case "a":
		return t.accept(ctx, arg)
	case "r":
		return t.withTicket(arg, func(tag, order string) error {
			return enqueue(ctx, t.client.Orders.SetStatus(order, flavoso.StatusParams{Status: flavoso.OrderReady}).WithTag(tag))
		})
	case "x":
		return t.withTicket(arg, func(tag, order string) error {
			return enqueue(ctx, t.client.Orders.Reject(order, flavoso.RejectParams{Reason: flavoso.ReasonTooBusy}).WithTag(tag))
		})
	case "s":
		return t.soldOut(ctx, arg)
	case "b":
		return enqueue(ctx, t.client.Menu.SetAvailability(flavoso.AvailabilityParams{Changes: []flavoso.AvailabilityChange{
			{ItemID: arg, Status: flavoso.Available}}}).WithTag(arg))
	case "l":
		for i, known := range t.tickets.all() {
			t.screen.say("ticket %d: %s [%s]", i+1, known.Text, known.Status)
		}
		return nil
	case "":
		return nil
	}
	return fmt.Errorf("no command %q; ? shows what there is", command)
}

// accept has the kitchen make an order, and tells Flavoso which ticket it is. Both are saved before
// accept returns, and go out in this order whenever there is a network.
func (t *till) accept(ctx context.Context, arg string) error {
	return t.withTicket(arg, func(tag, order string) error {
		if err := enqueue(ctx, t.client.Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 20}).WithTag(tag)); err != nil {
			return err
		}
		return enqueue(ctx, t.client.Orders.Acknowledge(order, flavoso.AcknowledgeParams{ExternalID: "T-" + arg}).WithTag(tag))
	})
}

// soldOut takes an item off the menu until 22:00 in the restaurant. Should there be no network until then,
// the change has become pointless.
func (t *till) soldOut(ctx context.Context, item string) error {
	zone, err := time.LoadLocation(t.tickets.timezone())
	if err != nil {
		return err
	}
	now := time.Now()
	until := tonight(now.In(zone))
	return enqueue(ctx, t.client.Menu.SetAvailability(flavoso.AvailabilityParams{Changes: []flavoso.AvailabilityChange{
		{ItemID: item, Status: flavoso.Unavailable, Until: until, Reason: "sold out"},
	}}).WithTag(item).WithExpiry(until.Sub(now)))
}

// tonight is the next 22:00.
func tonight(now time.Time) time.Time {
	at := time.Date(now.Year(), now.Month(), now.Day(), 22, 0, 0, 0, now.Location())
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

func (t *till) withTicket(arg string, do func(tag, order string) error) error {
	number, err := strconv.Atoi(arg)
	known, ok := t.tickets.get(number)
	if err != nil || !ok {
		return fmt.Errorf("there is no ticket %q", arg)
	}
	return do("ticket "+arg, known.Order)
}

func enqueue[T any](ctx context.Context, call *flavoso.Call[T]) error {
	_, err := call.Enqueue(ctx)
	return err
}
