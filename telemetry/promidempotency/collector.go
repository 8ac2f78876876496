// Package promidempotency gives Prometheus the figures of an idempotency engine and its middleware: all that S16
// asks for. The names are listed, with units and what to alarm on, in docs/observability.md.
//
//	c, err := promidempotency.New(engine, promidempotency.Options{})
//	prometheus.MustRegister(c)
//	mw, err := idempotency.NewMiddleware(engine, idempotency.Options{Observe: c.Observe, …})
package promidempotency

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flavoso/flavoso-go/idempotency"
)

// Options configure New. The zero value is usable.
type Options struct {
	// Name is the value of the label "engine". Needed to register more than one collector. Default "default".
	Name string
	// Timeout bounds the engine's Stats at one scrape. Default 5 s.
	Timeout time.Duration
	// Logger is told when Stats fails. Default: silent; flavoso_idempotency_up is 0 all the same.
	Logger *slog.Logger
}

// Collector is a prometheus.Collector. It asks the engine at every scrape and has no goroutine.
type Collector struct {
	engine idempotency.Engine
	opts   Options

	up                          *prometheus.Desc
	gauges                      []gauge
	counters                    []counter
	claims, finished, openCount *prometheus.Desc

	events *prometheus.CounterVec
	claim  prometheus.Histogram
	save   prometheus.Histogram
	run    prometheus.Histogram
}

type gauge struct {
	desc  *prometheus.Desc
	value func(idempotency.Stats) float64
}

type counter struct {
	desc  *prometheus.Desc
	value func(idempotency.Counters) uint64
}

const prefix = "flavoso_idempotency_"

// New makes a collector. Register it, and set Options.Observe of the middleware to its Observe.
func New(engine idempotency.Engine, opts Options) (*Collector, error) {
	if engine == nil {
		return nil, errors.New("promidempotency: an engine is required")
	}
	if opts.Name == "" {
		opts.Name = "default"
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	labels := prometheus.Labels{"engine": opts.Name}
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, variable, labels)
	}
	seconds := func(f func(idempotency.Stats) time.Duration) func(idempotency.Stats) float64 {
		return func(s idempotency.Stats) float64 { return f(s).Seconds() }
	}
	c := &Collector{engine: engine, opts: opts,
		up:        desc("up", "1 if the engine's figures could be read at this scrape, else 0."),
		claims:    desc("claims_total", "Claims by decision.", "decision"),
		finished:  desc("finished_total", "Stored results by state.", "state"),
		openCount: desc("open_records", "Records that are not finished, by state.", "state"),
		gauges: []gauge{
			{desc("records", "Records kept, expired ones included."), func(s idempotency.Stats) float64 { return float64(s.Records) }},
			{desc("records_estimated", "1 if flavoso_idempotency_records is an estimate, else 0."), func(s idempotency.Stats) float64 {
				if s.Estimated {
					return 1
				}
				return 0
			}},
			{desc("size_bytes", "Size of all records."), func(s idempotency.Stats) float64 { return float64(s.Bytes) }},
			{desc("lapsed_records", "Processing records whose lease has ended."), func(s idempotency.Stats) float64 { return float64(s.Lapsed) }},
			{desc("oldest_processing_seconds", "Age of the oldest processing record, 0 if there is none."),
				seconds(func(s idempotency.Stats) time.Duration { return s.OldestProcessing })},
			{desc("oldest_uncertain_seconds", "Age of the oldest uncertain record, 0 if there is none."),
				seconds(func(s idempotency.Stats) time.Duration { return s.OldestUncertain })},
			{desc("oldest_held_seconds", "Age of the oldest result still valid, 0 if there is none."),
				seconds(func(s idempotency.Stats) time.Duration { return s.OldestHeld })},
			{desc("backlog_records", "Expired records that are not deleted yet."), func(s idempotency.Stats) float64 { return float64(s.Backlog) }},
			{desc("backlog_age_seconds", "How long the oldest of them has been expired."),
				seconds(func(s idempotency.Stats) time.Duration { return s.BacklogAge })},
		},
		counters: []counter{
			{desc("released_total", "Keys freed because the operation had no effect."), func(c idempotency.Counters) uint64 { return c.Released }},
			{desc("uncertain_total", "Records that became uncertain."), func(c idempotency.Counters) uint64 { return c.MarkedUncertain }},
			{desc("reconciled_total", "Uncertain or lapsed records that were settled."), func(c idempotency.Counters) uint64 { return c.Reconciled }},
			{desc("late_completions_total", "Results stored after the lease had ended, by the rightful owner."),
				func(c idempotency.Counters) uint64 { return c.LateCompletions }},
			{desc("ownership_lost_total", "Steps refused because another claim owns the operation."), func(c idempotency.Counters) uint64 { return c.OwnershipLost }},
			{desc("swept_records_total", "Expired records deleted."), func(c idempotency.Counters) uint64 { return c.Swept }},
			{desc("swept_bytes_total", "Size of the expired records deleted."), func(c idempotency.Counters) uint64 { return c.SweptBytes }},
		},
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "events_total",
			Help: "What the middleware did, by kind.", ConstLabels: labels}, []string{"kind"}),
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10)}) // 0.1 ms to 26 s
	}
	c.claim = histogram("claim_duration_seconds", "Time the engine took for a claim.")
	c.save = histogram("save_duration_seconds", "Time until a result was saved, repeats included.")
	c.run = histogram("handler_duration_seconds", "Time handlers ran under a claim.")
	return c, nil
}

// Observe counts an event of the middleware. Safe for concurrent use.
func (c *Collector) Observe(e idempotency.Event) {
	c.events.WithLabelValues(string(e.Kind)).Inc()
	switch e.Kind {
	case idempotency.EventClaim:
		c.claim.Observe(e.Duration.Seconds())
	case idempotency.EventSave:
		c.save.Observe(e.Duration.Seconds())
	case idempotency.EventRun, idempotency.EventPanic:
		c.run.Observe(e.Duration.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.claims, c.finished, c.openCount} {
		ch <- d
	}
	for _, g := range c.gauges {
		ch <- g.desc
	}
	for _, n := range c.counters {
		ch <- n.desc
	}
	for _, x := range []prometheus.Collector{c.events, c.claim, c.save, c.run} {
		x.Describe(ch)
	}
}

// Collect implements prometheus.Collector. If the engine does not answer in time, up is 0 and its figures are absent.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, x := range []prometheus.Collector{c.events, c.claim, c.save, c.run} {
		x.Collect(ch)
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.Timeout)
	defer cancel()
	st, err := c.engine.Stats(ctx)
	if err != nil {
		c.opts.Logger.Warn("idempotency: stats could not be read", "engine", c.opts.Name, "error", err)
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 0)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 1)
	for _, g := range c.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(st))
	}
	for _, n := range c.counters {
		ch <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.value(st.Counters)))
	}
	n := st.Counters
	for _, d := range []struct {
		decision idempotency.Decision
		count    uint64
	}{{idempotency.New, n.New}, {idempotency.TakenOver, n.TakenOver}, {idempotency.Replay, n.Replays}, {idempotency.InProgress, n.InProgress},
		{idempotency.Mismatch, n.Mismatches}, {idempotency.Uncertain, n.Uncertain}, {idempotency.ResultGone, n.ResultGone}} {
		ch <- prometheus.MustNewConstMetric(c.claims, prometheus.CounterValue, float64(d.count), string(d.decision))
	}
	ch <- prometheus.MustNewConstMetric(c.finished, prometheus.CounterValue, float64(n.Completed), string(idempotency.Completed))
	ch <- prometheus.MustNewConstMetric(c.finished, prometheus.CounterValue, float64(n.Failed), string(idempotency.Failed))
	ch <- prometheus.MustNewConstMetric(c.openCount, prometheus.GaugeValue, float64(st.Processing), string(idempotency.Processing))
	ch <- prometheus.MustNewConstMetric(c.openCount, prometheus.GaugeValue, float64(st.Uncertain), idempotency.Uncertain)
}
