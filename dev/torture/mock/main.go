// Command mock is the mock server of a torture run as a process of its own. It makes bad weather until it
// is told to stop, and then leaves everything it knows behind, so that the next process can go on from it
// and the judge can look at it.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/judge"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
	"github.com/flavoso/flavoso-go/mockserver"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mock:", err)
		os.Exit(1)
	}
}

func run() error {
	var p plan.Mock
	if err := plan.Read(&p); err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(p.Seed, 1))
	srv, err := mockserver.New(mockserver.WithAddr(p.Addr), mockserver.WithSeed(p.Seed), mockserver.WithJournal(1<<20, 1<<30),
		mockserver.WithSwitches(func(s *mockserver.Switches) {
			s.AcceptWithin = 0
			s.ReadyWithin = 10_000 * time.Hour
			s.AbortAfter = 800 * time.Millisecond // two minutes of Flavoso's, so that a run need not wait for them
			s.RetryAfterInProgress = rnd.IntN(8) == 0
			s.BookingStatus = []string{mockserver.BookingConfirmed, mockserver.BookingRequested}[rnd.IntN(2)]
		}))
	if err != nil {
		return err
	}
	srv.Clock().Advance(p.Offset)
	if p.Restore != "" {
		var left judge.Dump
		data, err := os.ReadFile(p.Restore)
		if err == nil {
			err = json.Unmarshal(data, &left)
		}
		if err == nil {
			err = srv.Restore(left.Snapshot)
		}
		if err != nil {
			return err
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	calm := make(chan os.Signal, 1)
	signal.Notify(calm, syscall.SIGUSR1)
	fmt.Println(srv.BaseURL())

	var next <-chan time.Time
	if p.Weather {
		next = time.After(0)
	}
	var armed []*mockserver.Injected
	for {
		select {
		case <-next:
			for _, f := range armed {
				f.Remove()
			}
			armed = weather(srv, rnd, p)
			next = time.After(time.Duration(50+rnd.IntN(250)) * time.Millisecond)
		case <-calm:
			next = nil
			for _, f := range armed {
				f.Remove()
			}
		case <-stop:
			return leave(srv, p.Dump)
		}
	}
}

// leave ends the server in the middle of whatever it is doing and writes down what it knows.
func leave(srv *mockserver.Server, path string) error {
	if err := srv.Close(); err != nil {
		return err
	}
	snap, err := srv.Snapshot()
	if err != nil {
		return err
	}
	dump := judge.Dump{Snapshot: snap, Requests: srv.Requests(), Effects: srv.Effects()}
	for i := range dump.Requests {
		dump.Requests[i].Header = nil
		if dump.Requests[i].Method == "GET" {
			dump.Requests[i].Answer = nil
		}
	}
	data, err := json.Marshal(dump)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// weather arms some of the faults there are, each with some probability; or those it is told to.
func weather(srv *mockserver.Server, rnd *rand.Rand, p plan.Mock) []*mockserver.Injected {
	ms := func(most int) time.Duration { return time.Duration(1+rnd.IntN(most)) * time.Millisecond }
	write := []string{"POST", "POST", "POST", "PUT", "PATCH", "", ""}[rnd.IntN(7)]
	type named struct {
		name  string
		fault mockserver.Fault
	}
	all := []named{
		{"refuse", mockserver.Refuse().Times(1 + rnd.IntN(5))},
		{"reset", mockserver.Reset().On(write, "")},
		{"drop_response", mockserver.DropResponse().On(write, "")},
		{"drop_response", mockserver.DropResponse().On(write, "")},
		{"status 500", mockserver.Status(500)},
		{"status 503", mockserver.Status(503).RetryAfterHeader([]string{"0", "soon", "-1", "Thu, 01 Jan 1970 00:00:00 GMT"}[rnd.IntN(4)])},
		{"status 401", mockserver.Status(401)},
		{"status 403", mockserver.Status(403).On("POST", "/orders/{id}/accept")},
		{"status 408", mockserver.Status(408)},
		{"conflict", mockserver.Status(409).Code("conflict").On("POST", "/orders/{id}/status")},
		{"status_after_commit", mockserver.StatusAfterCommit([]int{500, 502, 503, 504}[rnd.IntN(4)]).On(write, "").RetryAfterHeader("0")},
		{"not_held", mockserver.StatusAfterCommit([]int{500, 502, 503, 504}[rnd.IntN(4)]).On(write, "").NotHeld().RetryAfterHeader("0")},
		{"truncate", mockserver.Truncate(rnd.IntN(200))},
		{"drip", mockserver.Drip(1+rnd.IntN(100), ms(20))},
		{"delay before", mockserver.Delay(ms(120)).On(write, "")},
		{"delay in_handler", mockserver.Delay(ms(150)).At(mockserver.StageInHandler).On(write, "")},
		{"delay after", mockserver.Delay(ms(150)).At(mockserver.StageAfter).On(write, "")},
		{"hang before", mockserver.Hang().On(write, "")},
		{"hang after", mockserver.Hang().At(mockserver.StageAfter).On(write, "")},
		{"crash_before_commit", mockserver.CrashBeforeCommit().On(write, "")},
		{"crash_after_commit", mockserver.CrashAfterCommit().On(write, "")},
		{"rate_limit", mockserver.RateLimit(0)},
		{"portal", mockserver.Portal()},
		{"proxy_error", mockserver.ProxyError()},
		{"unknown_enum", mockserver.UnknownEnum()},
		{"late", mockserver.Late(ms(120)).On(write, "")},
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if len(p.Only) > 0 {
		all = slices.DeleteFunc(all, func(f named) bool { return !slices.Contains(p.Only, f.name) })
	} else {
		all = all[:3+rnd.IntN(10)]
	}
	var armed []*mockserver.Injected
	for _, f := range all {
		fault := f.fault.Optional()
		switch {
		case f.name == "refuse":
		case p.Ratio > 0:
			fault = fault.Ratio(p.Ratio)
		default:
			fault = fault.Ratio(0.02 + 0.1*rnd.Float64())
		}
		armed = append(armed, srv.Inject(fault))
	}
	return armed
}
