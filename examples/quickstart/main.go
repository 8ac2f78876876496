// Quickstart shows the promise on one order: a till accepts it, the answer is lost, the till's process is
// killed, and after the restart Flavoso has accepted exactly once. It exits 0 only if that is true.
//
//	go run ./examples/quickstart
//
// Flavoso is played by the bundled mock server in this process. The till is till.go: a process of its
// own, killed with SIGKILL, so nothing it only had in memory survives.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

const connection = "store-42"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	run := story
	if len(os.Args) > 1 && os.Args[1] == "till" {
		run = till
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func story(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "flavoso-quickstart")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	outboxPath := filepath.Join(dir, "till.outbox")

	srv, err := mockserver.New()
	if err != nil {
		return err
	}
	defer srv.Close()
	order := srv.AddOrder(connection, mockserver.Order{})
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
	say("Flavoso (the mock server) listens on %s.", srv.BaseURL())
	say("A guest orders: order %s is pending.", order)

	first, err := startTill(ctx, "accept", srv, outboxPath, order)
	if err != nil {
		return err
	}
	defer first.kill()
	say("The till (process %d) accepts it: saved to its outbox first, then sent.", first.pid())
	if err := untilAccepted(ctx, srv, order); err != nil {
		return err
	}
	say("Flavoso executes the accept, and the answer is lost on the way back.")
	first.kill()
	say("kill -9 %d: the till is gone. It never learned what became of its accept.", first.pid())
	if err := showOutbox(ctx, outboxPath); err != nil {
		return err
	}

	second, err := startTill(ctx, "resume", srv, outboxPath, order)
	if err != nil {
		return err
	}
	defer second.kill()
	say("The till starts again (process %d) on the same outbox; nobody tells it what to do.", second.pid())
	if err := second.cmd.Wait(); err != nil {
		return fmt.Errorf("the second till: %w", err)
	}
	return verdict(srv, order)
}

// tillProcess is the till as a child process.
type tillProcess struct{ cmd *exec.Cmd }

func (p tillProcess) pid() int { return p.cmd.Process.Pid }

func (p tillProcess) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // SIGKILL: no handler runs, nothing is flushed
		_ = p.cmd.Wait()
	}
}

func startTill(ctx context.Context, task string, srv *mockserver.Server, outboxPath, order string) (tillProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return tillProcess{}, err
	}
	cmd := exec.CommandContext(ctx, self, "till", task, srv.BaseURL(), srv.Token(connection), outboxPath, order)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return tillProcess{cmd}, cmd.Start()
}

// untilAccepted waits until the server has committed the accept.
func untilAccepted(ctx context.Context, srv *mockserver.Server, order string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for accepts(srv, order) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the accept never reached Flavoso")
		}
	}
	return nil
}

// showOutbox says what the dead till left on disk.
func showOutbox(ctx context.Context, path string) error {
	engine, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	counts, err := engine.Counts(ctx, connection)
	if err != nil {
		return err
	}
	say("What it left on disk: %d operation waiting, with its key, its exact bytes and the mark 'may have been sent'.", counts.Waiting())
	return nil
}

// verdict compares what was asked for with what happened.
func verdict(srv *mockserver.Server, order string) error {
	requests, keys, bodies := 0, map[string]bool{}, map[string]bool{}
	for _, r := range srv.Requests() {
		if r.Method == "POST" {
			requests++
			keys[r.Key], bodies[string(r.Body)] = true, true
		}
	}
	say("On the wire: %d requests, %d key, %d body.", requests, len(keys), len(bodies))
	n := accepts(srv, order)
	say("Flavoso executed %d accept for order %s.", n, order)
	if n != 1 || len(keys) != 1 || len(bodies) != 1 || requests < 2 {
		return errors.New("the promise was broken")
	}
	return nil
}

func accepts(srv *mockserver.Server, order string) int {
	n := 0
	for _, e := range srv.Effects() {
		if e.Kind == "orders.accept" && e.Resource == order {
			n++
		}
	}
	return n
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
