package mockserver

// Option configures a server.
type Option func(*config) error

type config struct {
	seed         uint64
	addr         string // "" = a free port of 127.0.0.1
	inMemory     bool
	tls          bool
	knownTokens  bool
	switches     Switches
	journalCount int
	journalBytes int
	ledgerCount  int
}

func defaultConfig() config {
	return config{
		seed: 1, switches: DefaultSwitches(),
		journalCount: 10_000, journalBytes: 64 << 20, ledgerCount: 100_000,
	}
}

// WithSeed sets where all ids, orders and random faults come from; the same seed tells the same story.
// The default is 1.
func WithSeed(seed uint64) Option {
	return func(c *config) error { c.seed = seed; return nil }
}

// InMemory opens no port: the server is reachable over [Server.Transport] alone. It is what a test
// inside testing/synctest needs, because a goroutine that waits on the network stops a bubble's time. A
// server made inside a bubble is in memory without being told.
func InMemory() Option {
	return func(c *config) error { c.inMemory = true; return nil }
}

// WithAddr listens on host:port instead of a free port of 127.0.0.1.
func WithAddr(addr string) Option {
	return func(c *config) error { c.addr = addr; return nil }
}

// WithTLS serves https with a certificate made for this server; [Server.CertPool] trusts it.
func WithTLS() Option {
	return func(c *config) error { c.tls = true; return nil }
}

// RequireKnownTokens accepts only tokens that the server has given out. Without it mock_<connection> is
// the token of that connection from the start.
func RequireKnownTokens() Option {
	return func(c *config) error { c.knownTokens = true; return nil }
}

// WithSwitches changes readings of the contract: WithSwitches(func(s *Switches) { s.HoldFrom = "receipt" }).
func WithSwitches(change func(*Switches)) Option {
	return func(c *config) error {
		change(&c.switches)
		return c.switches.validate()
	}
}

// WithJournal bounds what [Server.Requests] keeps: at most count requests and bytes bytes, the newest
// ones. The default is 10 000 and 64 MiB.
func WithJournal(count, bytes int) Option {
	return func(c *config) error { c.journalCount, c.journalBytes = max(count, 1), max(bytes, 1); return nil }
}
