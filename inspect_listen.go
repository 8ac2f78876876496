package flavoso

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/internal/inspect"
)

// InspectServer serves an [InspectHandler] on a loopback port. [ListenInspect] makes it.
type InspectServer struct {
	url, token, file string
	server           *http.Server
	served           sync.WaitGroup
	once             sync.Once
	err              error
}

// InspectAddressFile says where ListenInspect writes its address; default: beside the outbox file, its name and
// ".inspect". Without an outbox file there is no default, and nothing is written.
func InspectAddressFile(path string) InspectOption { return func(o *inspectOptions) { o.file = path } }

// ListenInspect serves [InspectHandler] on a free port of 127.0.0.1 until Close, and writes the address and a
// random token into a file beside the outbox (mode 0600), where the command flavoso finds both: whoever may
// read the outbox may ask, and nobody else. Close it before the client.
func ListenInspect(c *Client, opts ...InspectOption) (*InspectServer, error) {
	o := inspectOptions{guarded: true, token: rand.Text()}
	if c.cfg.OutboxPath != "" {
		path := c.cfg.OutboxPath
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		o.file = path + inspect.AddressSuffix
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.token == "" {
		return nil, &ParamError{Field: "InspectToken", Rule: "must not be empty: leave it out for a random one"}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("flavoso: listening for inspection: %w", err)
	}
	s := &InspectServer{
		url: "http://" + l.Addr().String(), token: o.token, file: o.file,
		server: &http.Server{Handler: InspectHandler(c, func(into *inspectOptions) { *into = o }), ReadHeaderTimeout: 10 * time.Second},
	}
	if s.file != "" {
		if err := s.writeAddress(); err != nil {
			return nil, errors.Join(fmt.Errorf("flavoso: writing the address for inspection: %w", err), l.Close())
		}
	}
	s.served.Go(func() { _ = s.server.Serve(l) }) // it ends by Close
	return s, nil
}

// URL returns where it listens, e.g. "http://127.0.0.1:40117".
func (s *InspectServer) URL() string { return s.url }

// Token returns what a request must carry in "Authorization: Bearer <token>".
func (s *InspectServer) Token() string { return s.token }

// Format implements [fmt.Formatter]: every verb prints the address and hides the token.
func (s *InspectServer) Format(w fmt.State, _ rune) {
	fmt.Fprintf(w, "{URL:%s Token:%s}", s.url, redacted)
}

// writeAddress puts the file into place as a whole: a reader never meets half of it.
func (s *InspectServer) writeAddress() error {
	b, err := json.Marshal(inspect.Address{URL: s.url, Token: s.token, PID: os.Getpid()})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.file), filepath.Base(s.file)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Close removes the address file, breaks off requests under way and stops listening. Idempotent.
func (s *InspectServer) Close() error {
	s.once.Do(func() {
		if s.file != "" {
			if err := os.Remove(s.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.err = err
			}
		}
		s.err = errors.Join(s.err, s.server.Close())
		s.served.Wait()
	})
	return s.err
}
