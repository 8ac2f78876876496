package otelflavoso

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/flavoso/flavoso-go"
)

// Source is whose status is observed: a *flavoso.Client.
type Source interface{ Status() flavoso.Status }

// Observe registers the gauges, which are read from the clients at each collection; what is told is the sum over
// them. Where a client's totals could not be read, none are told. Reading costs the same at any backlog. Call it once for
// all clients of a process, and Unregister before they are closed: a closed client has nothing to tell.
func Observe(o Options, clients ...Source) (metric.Registration, error) {
	if len(clients) == 0 {
		return nil, errors.New("otelflavoso: a client is required")
	}
	meter := o.meter()
	var errs []error
	sum := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		g, err := meter.Int64ObservableUpDownCounter("flavoso.client."+name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return g
	}
	operations := sum("outbox.operations", "{operation}", "Operations that are not over, by state.")
	lanes := sum("outbox.held_lanes", "{lane}", "Lanes held by an operation that waits for a decision.")
	connections := sum("connections", "{connection}", "Connections by state.")
	oldest, err := meter.Float64ObservableGauge("flavoso.client.outbox.oldest_age", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest waiting operation has been waiting, 0 if there is none."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		var waiting, uncertain, blocked, damaged, held int
		var age float64
		unread := false
		states := map[string]int64{"online": 0, "offline": 0, "paused": 0, "unauthorized": 0}
		for _, c := range clients {
			s := c.Status()
			unread = unread || s.Unread
			waiting, uncertain, blocked, damaged = waiting+s.Waiting, uncertain+s.Uncertain, blocked+s.Blocked, damaged+s.Damaged
			held += s.HeldLanes
			states[connectionState(s)]++
			if d, ok := believable(s.Oldest, s.AsOf); ok {
				age = max(age, d.Seconds())
			}
		}
		common := metric.WithAttributes(o.Attributes...)
		for state, n := range states {
			to.ObserveInt64(connections, n, common, metric.WithAttributes(keyConnectionState.String(state)))
		}
		if unread {
			return nil // a zero would say that nothing waits
		}
		for state, n := range map[string]int{"waiting": waiting, "uncertain": uncertain, "blocked": blocked, "damaged": damaged} {
			to.ObserveInt64(operations, int64(n), common, metric.WithAttributes(keyOperationState.String(state)))
		}
		to.ObserveInt64(lanes, int64(held), common)
		to.ObserveFloat64(oldest, age, common)
		return nil
	}, operations, lanes, connections, oldest)
}
