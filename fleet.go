package flavoso

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// Defaults of FleetConfig.
const (
	DefaultFleetConcurrency = 64
	DefaultPerConnection    = 4
	DefaultMaxConnections   = 10_000
)

// FleetConfig says how to open a Fleet. Fields named as those of Config mean the same; zero values are
// defaults.
type FleetConfig struct {
	// Outbox keeps the operations of all connections; required. With a shared engine (the module postgres has
	// one) any number of processes send for the same connections: each operation is claimed by one of them at a
	// time, under a lease. The caller closes it, after the fleet.
	Outbox outbox.Engine
	// Token gives the access token of the connection that it is asked for; required. It is called by many
	// goroutines, before each attempt, and keeps tokens itself if asking is expensive.
	Token TokenSource

	BaseURL       string
	AllowInsecure bool
	Transport     http.RoundTripper
	UserAgent     string
	Logger        *slog.Logger
	Retry         RetryPolicy

	// MaxWait bounds a wait whose context has no deadline; default 30 s, negative = no bound.
	MaxWait time.Duration
	// AttemptTimeout bounds one attempt; default 30 s. It grows by a second for each 64 KiB of body. A claim's
	// lease is about 40 s more than that, and an attempt is over 10 s before its lease ends: so long is what a
	// process that dies has claimed out of reach.
	AttemptTimeout time.Duration
	// Concurrency bounds the attempts of all connections together that this process has under way at once;
	// default 64. Negative: it sends nothing, hands over no outcomes and removes nothing; it saves operations and
	// waits for what other processes make of them, as a web server does that has workers.
	Concurrency int
	// PerConnection bounds those of one connection; default 4.
	PerConnection int
	// MaxConnections is how many connections are remembered while nothing happens to them; default 10 000.
	// It bounds memory, and not how many there may be.
	MaxConnections int
	// KeepFinished is how long finished operations are kept; default 7 days, negative = for ever. A process that
	// sends and has no OnOutcome removes also what nobody has taken over: processes with one outbox agree on both.
	KeepFinished time.Duration
	// Limits bound what is accepted of each connection; the zero value has no limits.
	Limits outbox.Limits

	// OnOutcome is called for every outcome of every connection, as Config.OnOutcome says, with two
	// differences: lanes are served at the same time, up to Concurrency, each in its own order; and the
	// process that learned an outcome hands it over, while another does when that has not happened for a
	// minute. A process that stalls for longer may hand over what another has handed over since.
	OnOutcome func(ctx context.Context, c *Client, o Outcome) error
	// Reconcile decides what cannot be read back, as Config.Reconcile does.
	Reconcile func(ctx context.Context, c *Client, o Operation) (Resolution, error)
	// Hooks are told what happens, by many goroutines at once; Outcome.Connection and Status.Connection say to
	// whom.
	Hooks Hooks

	// now replaces the wall clock in tests; uptime the machine's boot clock.
	now    func() time.Time
	uptime dispatch.Uptime
}

// Fleet sends for many connections from one outbox: a POS that is a cloud service. It has one dispatcher.
// Each connection has a token, a pause, an offline state and a pace of its own, so that trouble at one
// restaurant does not slow down the others; what they share is Concurrency, in which connections are fair to
// each other. It may be used by many goroutines.
type Fleet struct {
	core *core
}

// OpenFleet takes up what is pending in the outbox, for every connection in it, and returns a fleet that
// sends in the background. It fails with a *ParamError when the configuration lacks or contradicts something, and with the
// storage's error when the outbox cannot be read. Both are ErrNotSaved.
func OpenFleet(cfg FleetConfig) (*Fleet, error) {
	if cfg.Outbox == nil {
		return nil, &ParamError{Field: "FleetConfig.Outbox", Rule: "is required: set it to an engine, e.g. of the module postgres"}
	}
	sends := cfg.Concurrency >= 0
	if !sends {
		cfg.Concurrency = 0
	}
	for _, n := range []struct {
		field string
		value *int
		def   int
	}{
		{"Concurrency", &cfg.Concurrency, DefaultFleetConcurrency},
		{"PerConnection", &cfg.PerConnection, DefaultPerConnection},
		{"MaxConnections", &cfg.MaxConnections, DefaultMaxConnections},
	} {
		switch {
		case *n.value < 0:
			return nil, &ParamError{Field: "FleetConfig." + n.field, Rule: "must not be negative"}
		case *n.value == 0:
			*n.value = n.def
		}
	}
	resolved, base, err := cfg.each("fleet").resolve()
	var param *ParamError
	if errors.As(err, &param) {
		param.Field = "Fleet" + param.Field
	}
	if err != nil {
		return nil, err
	}
	if !sends {
		resolved.Concurrency = 0
	}
	c := newCore(resolved, base, cfg.Outbox, false)
	c.fleet = true
	f := &Fleet{core: c}
	c.client = f.Client
	if cfg.OnOutcome != nil && sends {
		c.outcomes = newFleetOutcomes(c, "", resolved.Concurrency)
	}
	err = c.start(dispatch.Config{
		Open: func(name string) dispatch.Connection {
			return dispatch.Connection{Name: name, Token: f.of(name).token}
		},
		PerConnection:  cfg.PerConnection,
		MaxConnections: cfg.MaxConnections,
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// each is the configuration of one connection of the fleet.
func (c FleetConfig) each(connection string) Config {
	return Config{
		Connection: connection, Token: c.Token, Outbox: c.Outbox,
		BaseURL: c.BaseURL, AllowInsecure: c.AllowInsecure, Transport: c.Transport, UserAgent: c.UserAgent,
		Logger: c.Logger, Retry: c.Retry, MaxWait: c.MaxWait, AttemptTimeout: c.AttemptTimeout,
		Concurrency: c.Concurrency, KeepFinished: c.KeepFinished, Limits: c.Limits,
		OnOutcome: c.OnOutcome, Reconcile: c.Reconcile, Hooks: c.Hooks, now: c.now, uptime: c.uptime,
	}
}

// of is the resolved configuration of a connection.
func (f *Fleet) of(connection string) Config {
	cfg := f.core.cfg
	cfg.Connection = connection
	return cfg
}

// Client returns the client of a connection. It is cheap to make, holds nothing that must be closed, and
// need not be kept: clients of one connection are the same. Calls of a client whose connection has an
// impossible name (empty, or with control characters) fail with a *ParamError.
//
// Its Close and Shutdown do nothing, its Wake and Flush are about its connection alone, and its Status
// counts that connection only.
func (f *Fleet) Client(connection string) *Client {
	c := newClient(f.of(connection), f.core)
	c.invalid = checkConnection("connection", connection)
	return c
}

// Wake says that the network is back: what waits for it is tried now rather than at its next turn, and a Watch
// polls now. What Flavoso asked to wait for is waited for all the same.
func (f *Fleet) Wake() {
	f.core.dispatcher.Wake()
	f.core.wakeWatches("")
}

// Close stops at once and loses nothing: requests under way are broken off, and everything that is not
// settled is taken up by another process when its lease has ended, or by the next OpenFleet. Waits end with a
// *PendingError caused by ErrStopped. It joins every goroutine of the fleet. Idempotent.
func (f *Fleet) Close() error {
	if f == nil { // deferred before OpenFleet's error was looked at
		return nil
	}
	return f.core.closeNow()
}

// Shutdown takes and starts nothing new, lets requests under way finish and hands the outcomes that this
// process learned to OnOutcome, until ctx ends or Close is called, and closes. It returns the context's error
// when it had to break something off. Inside OnOutcome use Close; a hook may call neither.
func (f *Fleet) Shutdown(ctx context.Context) error { return f.core.shutdown(ctx) }

// checkConnection returns what is wrong with a connection's name.
func checkConnection(field, name string) error {
	switch {
	case name == "":
		return &ParamError{Field: field, Rule: "is required: set it to the identity of this restaurant's connection, e.g. \"store-42\""}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &ParamError{Field: field, Rule: "must not hold control characters"}
	}
	return validateText(field, name)
}
