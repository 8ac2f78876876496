package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

// script is an evening at the till in a few seconds: a lost answer, a pulled cable, a restart. Afterwards
// the mock server's ledger must say that everything happened, and happened once.
func (p *pos) script(ctx context.Context) error {
	play := func(lines ...string) error {
		for _, line := range lines {
			p.screen.say("> %s", line)
			if err := p.do(ctx, line); err != nil {
				return err
			}
		}
		p.screen.say("%s", p.screen.statusLine(p.till.client.Status()))
		return nil
	}
	p.screen.say("%s", help)
	p.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
	if err := errors.Join(play("o", "o", "o"), p.untilTickets(ctx, 3), play("a 1")); err != nil {
		return err
	}
	if err := p.untilStill(ctx); err != nil {
		return err
	}

	if err := play("n", "a 2", "r 1", "a 3", "s ramen", "o"); err != nil {
		return err
	}
	if err := p.until(ctx, "the till to notice that it is offline", func() bool { return !p.till.client.Status().OfflineSince.IsZero() }); err != nil {
		return err
	}
	p.screen.say("%s", p.screen.statusLine(p.till.client.Status()))
	p.screen.say("(the till is switched off and on again)")
	if err := p.restart(ctx); err != nil {
		return err
	}
	if waiting := p.till.client.Status().Waiting; waiting != 6 {
		return fmt.Errorf("after the restart %d operations wait instead of 6", waiting)
	}

	if err := errors.Join(play("n"), p.untilTickets(ctx, 4), play("a 4", "r 2", "r 3", "r 4")); err != nil {
		return err
	}
	if err := p.untilStill(ctx); err != nil {
		return err
	}
	if err := p.checkLedger(); err != nil {
		return err
	}
	p.screen.say("The ledger agrees: 4 orders accepted, acknowledged and ready, 1 item sold out, each exactly once.")
	return nil
}

func (p *pos) untilTickets(ctx context.Context, n int) error {
	return p.until(ctx, fmt.Sprintf("%d tickets", n), func() bool { return len(p.till.tickets.all()) == n })
}

// untilStill waits until nothing waits any more and the till has been told of every outcome.
func (p *pos) untilStill(ctx context.Context) error {
	return p.until(ctx, "everything to be sent", func() bool {
		for range p.till.client.Operations.List(ctx, flavoso.OperationFilter{Unacked: true}) {
			return false
		}
		return p.till.client.Status().Waiting == 0
	})
}

func (p *pos) until(ctx context.Context, what string, reached func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s", what)
		}
	}
	return nil
}

// checkLedger compares what was asked for with what the server did.
func (p *pos) checkLedger() error {
	want := map[string]int{"menu.availability menu": 1}
	for _, t := range p.till.tickets.all() {
		for _, kind := range []string{"orders.accept", "orders.acknowledge", "orders.status"} {
			want[kind+" "+t.Order] = 1
		}
	}
	return compare(want, p.srv.Effects())
}

func compare(want map[string]int, effects []mockserver.Effect) error {
	got := map[string]int{}
	for _, e := range effects {
		got[e.Kind+" "+e.Resource]++
	}
	var wrong []string
	for what, n := range want {
		if got[what] != n {
			wrong = append(wrong, fmt.Sprintf("%s: %d times instead of %d", what, got[what], n))
		}
		delete(got, what)
	}
	for what, n := range got {
		wrong = append(wrong, fmt.Sprintf("%s: %d times, and nobody asked for it", what, n))
	}
	if len(wrong) > 0 {
		return errors.New("the ledger disagrees: " + strings.Join(wrong, "; "))
	}
	return nil
}
