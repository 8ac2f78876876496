package mockserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// Server is one Flavoso. It is independent of every other one, and safe for concurrent use.
type Server struct {
	config   config
	switches atomic.Pointer[Switches]
	clock    Clock
	routes   *routeTable
	journal  *journal
	ledger   *ledger
	faults   *faultSet
	tb       TB // nil without a test

	requestIDs *random
	tokenIDs   *random

	mu          sync.Mutex // guards everything below and everything in connections
	connections map[string]*connection
	scopes      map[string]int    // how often a connection of that name was made
	tokens      map[string]string // token → connection; "" = ended
	engine      *idempotency.Memory
	living      map[idempotency.Scope]livingClaim

	pipe    *pipeListener
	http    *http.Server
	baseURL string
	pool    *x509.CertPool
	cert    []byte // PEM

	done   chan struct{} // closed by Close
	work   sync.WaitGroup
	closed bool // guarded by netMu
	netMu  sync.Mutex
	conns  map[net.Conn]http.ConnState
	dials  int
	idle   *sync.Cond // signalled when a connection has ended
	pools  []*http.Transport
}

// Start makes a server for a test. When the test ends it is closed, and a fault that never fired fails
// the test, because a test that armed it has not tested what it says.
func Start(t TB, opts ...Option) *Server {
	t.Helper()
	s, err := New(opts...)
	if err != nil {
		t.Fatalf("mockserver: %v", err)
		return nil
	}
	s.tb = t
	t.Cleanup(func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Errorf("mockserver: closing: %v", err)
		}
		if err := s.faults.unfired(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return s
}

// New makes a server and starts it. It runs until Close.
func New(opts ...Option) (*Server, error) {
	cfg := defaultConfig()
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, err
		}
	}
	s := &Server{
		config: cfg, routes: newRouteTable(),
		journal: newJournal(cfg.journalCount, cfg.journalBytes),
		ledger:  &ledger{max: cfg.ledgerCount},
		faults:  &faultSet{seed: cfg.seed},
		pipe:    newPipeListener(), done: make(chan struct{}), conns: map[net.Conn]http.ConnState{},
	}
	s.idle = sync.NewCond(&s.netMu)
	sw := cfg.switches
	s.switches.Store(&sw)
	s.forget()
	s.http = &http.Server{
		Handler: s, ErrorLog: log.New(io.Discard, "", 0), ConnState: s.connState, ConnContext: s.connContext,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only: faults work on connections
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	return s, nil
}

// forget brings everything but the clock and the network back to the seed. The caller holds s.mu, or is
// the only one who knows s.
func (s *Server) forget() {
	s.requestIDs = newRandom(s.config.seed, "request ids")
	s.tokenIDs = newRandom(s.config.seed, "tokens")
	s.connections = map[string]*connection{}
	s.scopes = map[string]int{}
	s.tokens = map[string]string{}
	s.engine = s.newEngine()
	s.living = map[idempotency.Scope]livingClaim{}
}

func (s *Server) listen() error {
	var tlsConfig *tls.Config
	scheme := "http"
	if s.config.tls {
		scheme = "https"
		var err error
		if tlsConfig, err = s.makeCertificate(); err != nil {
			return fmt.Errorf("mockserver: making a certificate: %w", err)
		}
	}
	// In memory no address is needed; this one is loopback, and nobody listens there, so that a client
	// that forgot Transport finds out at once.
	s.baseURL = scheme + "://127.0.0.1:1" + basePath
	listeners := []net.Listener{s.pipe}
	if !s.config.inMemory && !inBubble() {
		addr := s.config.addr
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("mockserver: listening on %s: %w", addr, err)
		}
		s.baseURL = scheme + "://" + dialable(addr, l.Addr().String()) + basePath
		listeners = append(listeners, l)
	}
	for _, l := range listeners {
		if tlsConfig != nil {
			l = tls.NewListener(l, tlsConfig)
		}
		s.work.Go(func() {
			_ = s.http.Serve(l) // always ErrServerClosed: Close is the only way out
		})
	}
	return nil
}

// dialable is the address that reaches a listener from this machine. A listener on every address, such
// as one on 0.0.0.0, is reported as [::], which is no place to send a request to.
func dialable(asked, listens string) string {
	host, port, err := net.SplitHostPort(listens)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return listens
	}
	if strings.HasPrefix(asked, "[") {
		return net.JoinHostPort("::1", port)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// inBubble reports whether the code runs inside a testing/synctest bubble, where time starts at midnight
// of 2000-01-01. No machine that runs this code has that date.
func inBubble() bool { return time.Now().Year() < 2010 }

// BaseURL is what clients are configured with: scheme, host and the base path /v1. Of a server that listens
// on every address it is the loopback one. In memory it is a
// loopback address that only Transport reaches.
func (s *Server) BaseURL() string { return s.baseURL }

// Clock is the server's own time.
func (s *Server) Clock() *Clock { return &s.clock }

// CertPool trusts the server's certificate; nil without [WithTLS].
func (s *Server) CertPool() *x509.CertPool { return s.pool }

// CertPEM is the server's certificate in PEM form; nil without [WithTLS].
func (s *Server) CertPEM() []byte { return append([]byte(nil), s.cert...) }

// Transport returns a new transport, with a connection pool of its own, that reaches this server and
// nothing else through memory. Each call is another device. It ends with the server.
func (s *Server) Transport() *http.Transport {
	t := &http.Transport{DialContext: s.dial, DisableCompression: true}
	if s.pool != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: s.pool}
	}
	s.netMu.Lock()
	defer s.netMu.Unlock()
	s.pools = append(s.pools, t)
	return t
}

func (s *Server) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	if want := hostOf(s.baseURL); addr != want {
		return nil, fmt.Errorf("mockserver: this transport reaches %s only, not %s", want, addr)
	}
	if s.faults.refuses() {
		return nil, errRefused()
	}
	return s.pipe.dial(ctx)
}

// Close stops the server: listeners, connections, requests that wait in a fault. When it returns, all its
// goroutines have ended. Closing twice is the same as once.
func (s *Server) Close() error {
	s.netMu.Lock()
	if s.closed {
		s.netMu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	pools := s.pools
	s.netMu.Unlock()

	err := s.http.Close()
	for _, t := range pools {
		t.CloseIdleConnections()
	}
	s.netMu.Lock()
	for len(s.conns) > 0 {
		s.idle.Wait()
	}
	s.netMu.Unlock()
	s.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// begin registers a request; false = the server is closing.
func (s *Server) begin() bool {
	s.netMu.Lock()
	defer s.netMu.Unlock()
	if s.closed {
		return false
	}
	s.work.Add(1)
	return true
}

// connState keeps count of the open connections.
func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.netMu.Lock()
	defer s.netMu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
		s.idle.Broadcast()
	default:
		s.conns[c] = state
		if s.closed || (state == http.StateIdle && s.faults.refusing()) { // closed: accepted while closing
			_ = c.Close() // its end is noticed by the server's own read
		}
	}
}

// connInfo is what the server knows about a connection; the request's context carries it.
type connInfo struct {
	number   int // for the journal
	overPipe bool
}

type connInfoKey struct{}

func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	s.netMu.Lock()
	defer s.netMu.Unlock()
	s.dials++
	return context.WithValue(ctx, connInfoKey{}, connInfo{s.dials, overPipe(c)})
}

// closeIdle ends the connections that wait for a request, on both ends as far as they are known.
func (s *Server) closeIdle() {
	s.netMu.Lock()
	pools := slices.Clone(s.pools)
	s.netMu.Unlock()
	for _, t := range pools {
		t.CloseIdleConnections()
	}
	s.netMu.Lock()
	defer s.netMu.Unlock()
	for c, state := range s.conns {
		if state == http.StateIdle {
			_ = c.Close() // its end is noticed by the server's own read
		}
	}
}

// now is the server's time as it goes into objects: milliseconds.
func (s *Server) now() time.Time { return s.clock.Now().Truncate(time.Millisecond) }

// wait waits for d; false = the server is closing.
func (s *Server) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.done:
		return false
	}
}

// Switches returns the readings of the contract the server has now.
func (s *Server) Switches() Switches { return *s.switches.Load() }

// SetSwitches changes readings of the contract while the server runs. An error of change, or a senseless
// value, changes nothing. Requests under way may still see the old ones.
func (s *Server) SetSwitches(change func(*Switches) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.Switches()
	if err := change(&next); err != nil {
		return err
	}
	if err := next.validate(); err != nil {
		return err
	}
	s.switches.Store(&next)
	return nil
}
