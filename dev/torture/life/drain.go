package life

import (
	"context"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/dev/torture/account"
)

// drain works off everything there is, and lists it.
func (t *Life) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	for _, c := range t.session.Clients {
		for {
			for _, any := range t.session.Clients {
				any.Wake()
			}
			open, err := unsettledOf(ctx, c)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if !open {
				break
			}
			select {
			case <-time.After(15 * time.Millisecond):
				continue
			case <-ctx.Done():
				t.Note(fmt.Sprintf("it does not settle: %+v", c.Status()))
			}
			break
		}
	}
	for _, c := range t.session.Clients {
		if err := t.list(c); err != nil {
			return err
		}
	}
	t.acc.Write(account.Event{What: account.Settled})
	return nil
}

// unsettledOf reports whether something waits that is not behind a parked operation, or is known and was not
// taken over.
func unsettledOf(ctx context.Context, c *flavoso.Client) (bool, error) {
	held := map[string]bool{}
	if c.Status().HeldLanes > 0 {
		for o, err := range c.Operations.List(ctx, flavoso.OperationFilter{States: []flavoso.State{flavoso.StateUncertain, flavoso.StateBlocked, flavoso.StateDamaged}}) {
			if err != nil {
				return true, err
			}
			held[o.Lane] = true
		}
	}
	for o, err := range c.Operations.List(ctx, flavoso.OperationFilter{States: []flavoso.State{flavoso.StateQueued, flavoso.StateSent}}) {
		if err != nil || !held[o.Lane] {
			return true, err
		}
	}
	for _, err := range c.Operations.List(ctx, flavoso.OperationFilter{Unacked: true}) {
		return true, err
	}
	return false, nil
}

func (t *Life) list(c *flavoso.Client) error {
	for o, err := range c.Operations.List(context.Background(), flavoso.OperationFilter{Bodies: true}) {
		if err != nil {
			return err
		}
		t.acc.Write(account.Event{What: account.Kept, Op: o.Tag, ID: o.ID, Kind: o.Kind, Lane: o.Lane, Method: o.Method, Target: o.Target,
			State: string(o.State), Revision: o.Revision, Status: o.Status, Reason: o.Reason, Key: string(o.Key), Attempts: o.Attempts,
			FirstSent: o.FirstSent, ByOther: o.ByOther, Acked: o.Acked, Body: o.RequestBody})
	}
	return nil
}
