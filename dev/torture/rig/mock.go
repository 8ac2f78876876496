package rig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/judge"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
)

// server is the mock server: a process that can be stopped and started again with everything it knew.
type server struct {
	binary string
	dir    string
	seed   uint64
	only   []string
	ratio  float64

	mu     sync.Mutex // held while it is down
	cmd    *exec.Cmd
	url    string // of the API
	lives  []string
	offset time.Duration
	wild   bool
	http   http.Client
}

// start starts a life of the server.
func (s *server) start() error {
	p := plan.Mock{Addr: "127.0.0.1:0", Seed: s.seed + uint64(len(s.lives))*7919, Weather: s.wild, Only: s.only, Ratio: s.ratio, Offset: s.offset,
		Dump: filepath.Join(s.dir, fmt.Sprintf("server-%d.json", len(s.lives)))}
	if n := len(s.lives); n > 0 {
		p.Restore = s.lives[n-1]
	}
	if s.url != "" {
		p.Addr = strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/v1")
	}
	env, err := plan.Environ(p)
	if err != nil {
		return err
	}
	s.cmd = exec.Command(s.binary)
	s.cmd.Env = env
	var said bytes.Buffer
	s.cmd.Stderr = &said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = s.cmd.Wait()
		return fmt.Errorf("the mock server did not start: %w\n%s", err, said.String())
	}
	if s.url == "" { // it keeps its address
		s.url = strings.TrimSpace(line)
	}
	s.lives = append(s.lives, p.Dump)
	return nil
}

// stop ends the life of the server, whatever it is doing.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	err := s.cmd.Wait()
	s.cmd = nil
	if err != nil {
		return fmt.Errorf("the mock server: %w", err)
	}
	return nil
}

// restart stops it in the middle of everything and starts it again after a while, with what it knew.
func (s *server) restart(pause time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	time.Sleep(pause)
	return s.start()
}

// quiet ends the bad weather.
func (s *server) quiet() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wild = false
	return s.cmd.Process.Signal(syscall.SIGUSR1)
}

// advance moves the server's clock.
func (s *server) advance(d time.Duration) error {
	s.offset += d
	return s.admin("POST", "clock", map[string]any{"advance": d.String()}, nil)
}

// admin makes a call of the admin API.
func (s *server) admin(method, call string, in, out any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		err = s.ask(method, call, body, out)
		if err == nil || tries == 5 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *server) ask(method, call string, body []byte, out any) error {
	req, err := http.NewRequest(method, strings.TrimSuffix(s.url, "/v1")+"/_mock/"+call, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("admin %s: %d %s", call, resp.StatusCode, data)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(data, out)
	}
	return err
}

// evidence stops the server for good and returns what all its lives left behind.
func (s *server) evidence() ([]judge.Dump, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return nil, err
	}
	var out []judge.Dump
	for _, path := range s.lives {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var d judge.Dump
		if err := json.Unmarshal(data, &d); err != nil {
			return nil, err
		}
		d.Snapshot = nil
		out = append(out, d)
	}
	return out, nil
}

// order lets an order arrive and returns its id.
func (s *server) order(connection string) (string, error) {
	var o struct {
		ID string `json:"id"`
	}
	if err := s.admin("POST", "orders", map[string]any{"connection": connection}, &o); err != nil {
		return "", err
	}
	if o.ID == "" {
		return "", errors.New("an order without an id")
	}
	return o.ID, nil
}

// token makes a new token of a connection, and ends the old ones.
func (s *server) token(connection string) (string, error) {
	var t struct {
		Token string `json:"token"`
	}
	err := s.admin("POST", "connections", map[string]any{"connection": connection, "rotate": true}, &t)
	return t.Token, err
}
