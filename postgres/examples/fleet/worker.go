package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// tokens gives the mock server's token of a connection. A real service keeps the tokens that it was given when
// each restaurant connected it.
func tokens() flavoso.TokenSource {
	return flavoso.TokenFunc(func(_ context.Context, r flavoso.TokenRequest) (string, error) {
		return "mock_" + r.Connection, nil
	})
}

// worker sends what the outbox holds, until it is told to stop.
func worker(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: fleet worker <dsn> <base URL>")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, args[0])
	if err != nil {
		return err
	}
	defer pool.Close()
	engine := pgoutbox.New(pool, pgoutbox.Options{})
	defer engine.Close()
	var attempts, outcomes atomic.Int64
	fleet, err := flavoso.OpenFleet(flavoso.FleetConfig{
		Outbox: engine, Token: tokens(), BaseURL: args[1],
		AttemptTimeout: 3 * time.Second, // short, so that the leases of a worker that dies end soon
		Concurrency:    8,
		OnOutcome: func(ctx context.Context, c *flavoso.Client, o flavoso.Outcome) error {
			// The shop learns here what became of its reservation. It may be told twice.
			_, err := pool.Exec(ctx, `UPDATE reservation SET state = $1 WHERE ref = $2`, string(o.State), o.Tag)
			if err == nil {
				outcomes.Add(1)
			}
			return err
		},
		Hooks: flavoso.Hooks{AttemptEnd: func(context.Context, flavoso.Outcome, *flavoso.Attempt) { attempts.Add(1) }},
	})
	if err != nil {
		return err
	}
	defer fleet.Close()
	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = fleet.Shutdown(patience)
	fmt.Printf("Process %d made %d attempts and handed over %d outcomes.\n", os.Getpid(), attempts.Load(), outcomes.Load())
	return err
}

// process is a worker as a child process.
type process struct{ cmd *exec.Cmd }

func startWorker(ctx context.Context, dsn, baseURL string, out io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "worker", dsn, baseURL)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return &process{cmd}, cmd.Start()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the worker with SIGKILL: no handler runs, nothing is flushed.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// stop ends the worker in good order.
func (p *process) stop() error {
	return errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.cmd.Wait())
}
