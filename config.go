package flavoso

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// DefaultBaseURL is where Flavoso's API is (F1).
const DefaultBaseURL = "https://api.flavoso.com/v1"

// Defaults of Config.
const (
	DefaultMaxWait        = 30 * time.Second
	DefaultAttemptTimeout = 30 * time.Second
	DefaultConcurrency    = 8
	DefaultKeepFinished   = 7 * 24 * time.Hour
)

// Flavoso remembers keys for 24 h (F5). The window in which a repeat counts as protected is shorter by
// the time an attempt may take plus what two clocks may differ, and by 15 minutes at least.
const (
	keyRetention     = 24 * time.Hour
	clockUncertainty = 5 * time.Minute
	leastMargin      = 15 * time.Minute
)

// Config says how to open a Client. Zero values are defaults; where it says so, a negative value turns
// a thing off. Open returns an error for what makes no sense together.
type Config struct {
	// Connection is the identity of this app's link to one restaurant; required. Keys and records are
	// scoped to it (F4). It must stay the same for as long as the outbox has operations.
	Connection string
	// Token gives the access token; required.
	Token TokenSource

	// OutboxPath is the file that keeps pending operations, on a local disk. It is made when it does not
	// exist; its directory must. Required unless Outbox is given.
	OutboxPath string
	// Outbox is an engine to use instead of a file. The caller closes it, after the client. With a shared engine
	// (the module postgres has one) several processes may send for the connection. The one that learned an outcome
	// hands it over, and another does when that has not happened for a minute. One without OnOutcome removes what
	// KeepFinished allows also where nobody has taken it over: processes with one outbox and one connection agree on
	// both. What other connections have there is left alone.
	Outbox outbox.Engine

	// BaseURL is the API's address; default DefaultBaseURL. It must be https, or plain http to a loopback
	// host.
	BaseURL string
	// AllowInsecure permits plain http to any host: tokens and guests' data then travel in the clear.
	AllowInsecure bool
	// Transport carries the requests; default: one of the client's own with sensible timeouts. With
	// anything but an *http.Transport no failed attempt can be proven never to have been sent.
	Transport http.RoundTripper
	// UserAgent is put before the SDK's own in the User-Agent header, e.g. "acme-pos/3.1".
	UserAgent string

	// Logger receives events; nil = silent. Tokens, bodies and queries are never logged.
	Logger *slog.Logger
	// Retry is the delay rule between attempts; default: ExponentialJitter, at random up to 500 ms at first,
	// doubling up to 60 s, without end.
	Retry RetryPolicy
	// MaxWait bounds a wait whose context has no deadline; default 30 s, negative = no bound.
	MaxWait time.Duration
	// AttemptTimeout bounds one attempt; default 30 s. It grows by a second for each 64 KiB of body.
	AttemptTimeout time.Duration
	// Concurrency bounds the attempts under way at once; default 8. One lane has one at most.
	Concurrency int
	// KeepFinished is how long finished operations are kept to be looked at; default 7 days, negative =
	// for ever. Rejected and parked ones are never removed unseen.
	KeepFinished time.Duration
	// Limits bound what the outbox accepts; the zero value has no limits.
	Limits outbox.Limits

	// OutboxKeys encrypt the outbox file (see outbox.Seal): bodies, answers, errors, keys, lanes and tags.
	// 32 bytes each; any of them opens, the first is used from then on. It must be so from the beginning:
	// an outbox that holds operations in the clear is refused, as is a sealed one without a fitting key
	// (outbox.ErrSealed). Empty = not encrypted.
	OutboxKeys [][]byte

	// OnOutcome is called for every outcome of this connection's operations, at least once per revision:
	// uncertain, and resolved later, are two. It is called after the outcome is durable, also after a
	// restart, in the order of each lane, one call at a time, with no lock held. nil = taken over; an error
	// or a panic = call again later with backoff, while other lanes go on.
	//
	// c is the client, for Do and Enqueue inside it. ctx ends when the client closes; Close does not wait
	// for a call that is under way, so it may be called inside it.
	OnOutcome func(ctx context.Context, c *Client, o Outcome) error
	// Reconcile decides what cannot be read back: it is asked before an operation of NewCall on POST that
	// may have been sent, and is not repeat-safe, is sent again. Without it the same key and bytes are sent
	// again for as long as Flavoso remembers the key (F5), and then the operation becomes uncertain. An
	// error or a panic = ask again later.
	Reconcile func(ctx context.Context, c *Client, o Operation) (Resolution, error)
	// Hooks are told what happens.
	Hooks Hooks

	// now replaces the wall clock in tests; uptime the machine's boot clock.
	now    func() time.Time
	uptime dispatch.Uptime
}

// resolve checks a configuration and fills in its defaults.
func (c Config) resolve() (Config, *url.URL, error) {
	invalid := func(field, rule string) (Config, *url.URL, error) {
		return c, nil, &ParamError{Field: "Config." + field, Rule: rule}
	}
	if err := checkConnection("Config.Connection", c.Connection); err != nil {
		return c, nil, err
	}
	switch {
	case c.Token == nil:
		return invalid("Token", "is required: set it to StaticToken(token) or to a TokenSource that can refresh")
	case c.OutboxPath == "" && c.Outbox == nil:
		return invalid("OutboxPath", "is required: set it to the file that keeps pending operations, or set Outbox to an engine")
	case c.OutboxPath != "" && c.Outbox != nil:
		return invalid("OutboxPath", "and Outbox exclude each other: set one of them")
	}
	switch t := c.Token.(type) {
	case staticToken:
		if t.rule != "" {
			return invalid("Token", t.rule)
		}
	case TokenFunc:
		if t == nil {
			return invalid("Token", "must not be a nil TokenFunc")
		}
	}
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || base.Hostname() == "" || base.Scheme != "https" && base.Scheme != "http":
		return invalid("BaseURL", "must be an absolute https URL, e.g. "+DefaultBaseURL+"; plain http is for loopback hosts, e.g. http://127.0.0.1:4010/v1")
	case base.User != nil || base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return invalid("BaseURL", "must hold no user information, query or fragment")
	case base.Scheme == "http" && !c.AllowInsecure && !isLoopback(base.Hostname()):
		return invalid("BaseURL", "must be https, as tokens and guests' data would travel in the clear; plain http is for loopback hosts, or set AllowInsecure")
	}
	for _, n := range []struct {
		field string
		value *int64
		def   int64
		off   int64 // what a negative value means; 0 = it is not allowed
	}{
		{"MaxWait", (*int64)(&c.MaxWait), int64(DefaultMaxWait), math.MaxInt64},
		{"AttemptTimeout", (*int64)(&c.AttemptTimeout), int64(DefaultAttemptTimeout), 0},
		{"KeepFinished", (*int64)(&c.KeepFinished), int64(DefaultKeepFinished), math.MaxInt64},
	} {
		switch {
		case *n.value == 0:
			*n.value = n.def
		case *n.value < 0 && n.off == 0:
			return invalid(n.field, "must not be negative")
		case *n.value < 0:
			*n.value = n.off
		}
	}
	switch {
	case c.Concurrency < 0:
		return invalid("Concurrency", "must not be negative")
	case c.Concurrency == 0:
		c.Concurrency = DefaultConcurrency
	}
	if c.Limits.Operations < 0 || c.Limits.Bytes < 0 || c.Limits.Body < 0 {
		return invalid("Limits", "must not be negative; 0 = no limit")
	}
	if c.window() <= 0 {
		return invalid("AttemptTimeout", "is longer than Flavoso remembers a key (F5)")
	}
	if c.Retry == nil {
		c.Retry = ExponentialJitter{}
	}
	if j, ok := c.Retry.(ExponentialJitter); ok {
		if err := j.validate(); err != nil {
			return c, nil, err
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.OutboxKeys) > 0 && c.Outbox != nil {
		return invalid("OutboxKeys", "are for OutboxPath: wrap Outbox with outbox.Seal instead")
	}
	for _, key := range c.OutboxKeys {
		if len(key) != 32 {
			return invalid("OutboxKeys", "must be 32 bytes each")
		}
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.uptime == nil {
		c.uptime = dispatch.MachineUptime()
	}
	c.UserAgent = strings.TrimSpace(c.UserAgent + " flavoso-go/" + Version)
	if strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		return invalid("UserAgent", "must be printable ASCII")
	}
	return c, base, nil
}

// window is how long after its first exposure an operation's key certainly protects it.
func (c Config) window() time.Duration {
	return keyRetention - max(c.AttemptTimeout+clockUncertainty, leastMargin)
}

// attemptTimeout is the time one attempt with a body of n bytes may take.
func (c Config) attemptTimeout(n int) time.Duration {
	return c.AttemptTimeout + time.Duration(n/(64<<10))*time.Second
}

// token asks the source for a token.
func (c Config) token(ctx context.Context, rejected string) (string, error) {
	token, err := c.Token.Token(ctx, TokenRequest{Connection: c.Connection, Rejected: rejected})
	if err == nil && token == "" {
		err = fmt.Errorf("flavoso: the token source gave an empty token")
	}
	return token, err
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// newTransport is the transport of a client that was given none.
func newTransport(concurrency int) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          2 * concurrency,
		MaxIdleConnsPerHost:   concurrency,
		IdleConnTimeout:       60 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}
