// The pos example is a small till in a plain terminal. Flavoso is the bundled mock server, in this process:
// its guests order, you take the orders, and you may pull the network cable whenever you like.
//
//	go run ./examples/pos            type a command and press Enter
//	go run ./examples/pos -script    an evening in a few seconds; exits 0 if everything happened once
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

const connection = "store-42"

const help = `commands, each with Enter:
  a 1      accept ticket 1 and acknowledge it
  r 1      ticket 1 is ready
  x 1      reject ticket 1: too busy
  s ramen  ramen is sold out until 22:00      b ramen  it is back
  n        pull the network cable, or plug it in
  o        another guest orders               l  all tickets
  q        quit`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout))
}

// run is the program; it returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) int {
	flags := flag.NewFlagSet("pos", flag.ContinueOnError)
	flags.SetOutput(out)
	scripted := flags.Bool("script", false, "play an evening by itself and check the ledger")
	dir := flags.String("dir", "", "where the till keeps its outbox and tickets (default: a new directory, removed at the end)")
	pace := flags.Duration("pace", 20*time.Second, "how often a guest orders; 0 = only on the command o")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	err := func() error {
		p, err := open(ctx, *dir, out, *scripted)
		if err != nil {
			return err
		}
		defer p.close()
		if *scripted {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			return p.script(ctx)
		}
		return p.interactive(ctx, in, *pace)
	}()
	if err != nil {
		fmt.Fprintln(out, "pos:", err)
		return 1
	}
	return 0
}

// pos is the till with the world around it.
type pos struct {
	screen *screen
	srv    *mockserver.Server
	cable  *cable
	cfg    tillConfig
	remove func()

	mu   sync.Mutex // guards till while the status line is followed
	till *till
}

func open(ctx context.Context, dir string, out io.Writer, scripted bool) (*pos, error) {
	p := &pos{screen: &screen{out: out, now: time.Now}, cable: &cable{}, remove: func() {}}
	if dir == "" {
		made, err := os.MkdirTemp("", "flavoso-pos")
		if err != nil {
			return nil, err
		}
		dir, p.remove = made, func() { os.RemoveAll(made) }
	}
	srv, err := mockserver.New()
	if err != nil {
		p.remove()
		return nil, err
	}
	p.srv = srv
	p.cfg = tillConfig{dir: dir, baseURL: srv.BaseURL(), token: srv.Token(connection), cable: p.cable, poll: 2 * time.Second}
	if scripted {
		p.cfg.poll = 100 * time.Millisecond
	}
	if p.till, err = openTill(ctx, p.cfg, p.screen); err != nil {
		srv.Close()
		p.remove()
		return nil, err
	}
	return p, nil
}

func (p *pos) close() {
	p.till.close()
	p.srv.Close()
	p.remove()
}

// restart switches the till off and on again.
func (p *pos) restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.till.close(); err != nil {
		return err
	}
	next, err := openTill(ctx, p.cfg, p.screen)
	if err == nil {
		p.till = next
	}
	return err
}

func (p *pos) client() *flavoso.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.till.client
}

// do carries out a command of the world or of the till.
func (p *pos) do(ctx context.Context, line string) error {
	switch strings.TrimSpace(line) {
	case "n":
		if p.cable.toggle() {
			p.screen.say("The network cable is pulled.")
		} else {
			p.screen.say("The network cable is plugged in.")
			p.till.client.Wake()
		}
		return nil
	case "o":
		p.srv.AddOrder(connection, mockserver.Order{})
		return nil
	case "?":
		p.screen.say("%s", help)
		return nil
	}
	return p.till.do(ctx, line)
}

// interactive reads commands until q, the end of the input, or an interrupt.
func (p *pos) interactive(ctx context.Context, in io.Reader, pace time.Duration) error {
	p.screen.say("%s", help)
	done := make(chan struct{})
	var jobs sync.WaitGroup
	defer jobs.Wait()
	defer close(done)
	jobs.Go(func() { p.screen.follow(p.client, done) })
	if pace > 0 {
		jobs.Go(func() { p.guests(pace, done) })
	}
	lines := make(chan string)
	go func() { // ends with the input; a terminal's read cannot be broken off
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			select {
			case lines <- scan.Text():
			case <-done:
				return
			}
		}
	}()
	for {
		select {
		case line, ok := <-lines:
			if !ok || strings.TrimSpace(line) == "q" {
				return nil
			}
			if err := p.do(ctx, line); err != nil {
				p.screen.say("%v", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// guests order at their own pace.
func (p *pos) guests(pace time.Duration, done <-chan struct{}) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		p.srv.AddOrder(connection, mockserver.Order{})
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}
