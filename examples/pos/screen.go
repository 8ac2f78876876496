package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go"
)

// screen is a plain terminal: lines, one after the other.
type screen struct {
	mu  sync.Mutex
	out io.Writer
	now func() time.Time
}

func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// statusLine is what a cashier must see at all times.
func (s *screen) statusLine(status flavoso.Status) string {
	oldest, offline := "", "online"
	if !status.Oldest.IsZero() {
		oldest = fmt.Sprintf(" · oldest %s", s.now().Sub(status.Oldest).Truncate(time.Second))
	}
	if !status.OfflineSince.IsZero() {
		offline = "offline since " + status.OfflineSince.Local().Format(time.TimeOnly)
	}
	if !status.PausedUntil.IsZero() {
		offline += ", paused until " + status.PausedUntil.Local().Format(time.TimeOnly)
	}
	if status.AuthRequired {
		offline += ", NEW TOKEN NEEDED"
	}
	if status.Unread {
		return fmt.Sprintf("── the outbox cannot be read · %s", offline)
	}
	return fmt.Sprintf("── waiting %d%s · %s · uncertain %d", status.Waiting, oldest, offline, status.Uncertain)
}

// follow prints the status line whenever it has something new to say, until done is closed.
func (s *screen) follow(client func() *flavoso.Client, done <-chan struct{}) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	last := flavoso.Status{Waiting: -1}
	for {
		status := client().Status()
		status.AsOf = time.Time{} // it alone is no news
		if status != last {
			s.say("%s", s.statusLine(status))
			last = status
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}
