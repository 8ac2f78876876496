package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"
)

func unmarshal(body []byte, v any) { _ = json.Unmarshal(body, v) } // what is not there stays zero

// reordered is the same JSON object with its first field moved to the end; nil when that cannot be done.
func reordered(body []byte) []byte {
	var fields map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	name, err := dec.Token()
	if err != nil || json.Unmarshal(body, &fields) != nil || len(fields) < 2 {
		return nil
	}
	first, ok := name.(string)
	if !ok {
		return nil
	}
	value := fields[first]
	delete(fields, first)
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return append(rest[:len(rest)-1], fmt.Sprintf(",%q:%s}", first, value)...)
}

func checkF5(ctx context.Context, s *session) error {
	if s.Control.Advance == nil {
		return skipped("needs a server whose clock can be moved")
	}
	_, body := s.booking("f5")
	key := s.key("f5")
	first, err := s.booked(ctx, body, key)
	if err != nil {
		return err
	}
	for _, step := range []time.Duration{time.Hour, 22 * time.Hour, 59 * time.Minute} {
		if err := s.Control.Advance(ctx, step); err != nil {
			return err
		}
		if err := s.expectReplay(ctx, first, body, key); err != nil {
			return fmt.Errorf("within 24 hours: %w", err)
		}
	}
	if err := s.Control.Advance(ctx, 2*time.Minute); err != nil {
		return err
	}
	a, err := s.booked(ctx, body, key)
	if err != nil {
		return fmt.Errorf("after 24 hours: %w", err)
	}
	if a.field("id") == first.field("id") {
		return fmt.Errorf("after 24 hours the key still names the first booking")
	}
	return nil
}

func checkF6(ctx context.Context, s *session) error {
	ref, body := s.booking("f6")
	key := s.key("f6")
	first, err := s.booked(ctx, body, key)
	if err != nil {
		return err
	}
	if len(first.header.Values("Idempotent-Replayed")) > 0 {
		return fmt.Errorf("the first answer carries Idempotent-Replayed")
	}
	for range 3 {
		if err := s.expectReplay(ctx, first, body, key); err != nil {
			return err
		}
	}
	// The first answer comes back also when the booking is not what it was.
	if _, err := s.send(ctx, request{method: "POST", path: "/bookings/" + url.PathEscape(first.field("id")) + "/cancel", keys: []string{s.key("f6")}}); err != nil {
		return err
	}
	if err := s.expectReplay(ctx, first, body, key); err != nil {
		return fmt.Errorf("after the booking changed: %w", err)
	}
	if err := s.expectBookings(ctx, ref, 1); err != nil {
		return err
	}
	return s.checkHeldRefusal(ctx)
}

// checkHeldRefusal: a refusal may be held or executed again; either way it stays the same answer.
func (s *session) checkHeldRefusal(ctx context.Context) error {
	key := s.key("f6")
	first, err := s.book(ctx, []byte(`{}`), key)
	if err != nil || first.success() {
		return err
	}
	again, err := s.book(ctx, []byte(`{}`), key)
	if err == nil && again.status != first.status {
		return fmt.Errorf("a refused request was answered with %s, its repeat with %s", first, again)
	}
	return err
}

func checkF8(ctx context.Context, s *session) error {
	if err := s.raceForAKey(ctx); err != nil {
		return err
	}
	if s.Control.Arm == nil {
		return nil
	}
	return s.meetTheFirst(ctx)
}

// meetTheFirst repeats a slow request while it runs. Whichever of the two the server takes up first is the
// first; the other must be told that it is in progress.
func (s *session) meetTheFirst(ctx context.Context) error {
	_, body := s.booking("f8")
	key := s.key("f8")
	if err := s.Control.Arm(ctx, Slow); err != nil {
		return err
	}
	type outcome struct {
		answer
		err error
	}
	send := func(to chan<- outcome) {
		a, err := s.send(ctx, request{method: "POST", path: "/bookings", body: body, keys: []string{key}})
		to <- outcome{a, err}
	}
	answers := make(chan outcome, 1)
	go send(answers)
	under := 1 // requests under way
	told, executed := false, []answer(nil)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for under > 0 {
		select {
		case <-again.C:
			if len(executed) == 0 && under < 2 {
				under++
				go send(answers)
			}
			continue
		case o := <-answers:
			under--
			switch {
			case o.err != nil:
				return o.err
			case o.status == 409 && o.code() == "idempotency_in_progress":
				told = true
			case o.success() && !o.replayed():
				executed = append(executed, o.answer)
				s.made = append(s.made, o.field("id"))
			case !o.success():
				return fmt.Errorf("a repeat while the first ran was answered with %s, want 409 idempotency_in_progress", o)
			}
		}
	}
	switch {
	case len(executed) != 1:
		return fmt.Errorf("a slow request and its repeats were executed %d times, want once", len(executed))
	case !told:
		return fmt.Errorf("no repeat was answered with 409 idempotency_in_progress while the first ran")
	}
	return s.expectReplay(ctx, executed[0], body, key)
}

// raceForAKey sends the same request many times at once: one is executed.
func (s *session) raceForAKey(ctx context.Context) error {
	const racers = 16
	for range 3 {
		ref, body := s.booking("f8")
		key := s.key("f8")
		answers, errs := make([]answer, racers), make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				answers[i], errs[i] = s.send(ctx, request{method: "POST", path: "/bookings", body: body, keys: []string{key}})
			})
		}
		wg.Wait()
		ids := map[string]bool{}
		executed := 0
		for i, a := range answers {
			switch {
			case errs[i] != nil:
				return errs[i]
			case a.success():
				ids[a.field("id")] = true
				if !a.replayed() {
					executed++
				}
			case a.status != 409 || a.code() != "idempotency_in_progress":
				return fmt.Errorf("of %d requests at once one was answered with %s, want 409 idempotency_in_progress or the result", racers, a)
			}
		}
		for id := range ids {
			s.made = append(s.made, id)
		}
		if executed != 1 || len(ids) != 1 {
			return fmt.Errorf("of %d requests at once %d were executed, with %d different results; want one", racers, executed, len(ids))
		}
		if err := s.expectBookings(ctx, ref, 1); err != nil {
			return err
		}
	}
	return nil
}

func checkF9(ctx context.Context, s *session) error {
	if s.Control.Advance == nil || s.Control.Arm == nil {
		return skipped("needs a server whose clock can be moved and whose requests can crash")
	}
	_, body := s.booking("f9")
	key := s.key("f9")
	if err := s.Control.Arm(ctx, Crash); err != nil {
		return err
	}
	if a, err := s.book(ctx, body, key); err == nil {
		return fmt.Errorf("the request that was to crash was answered with %s", a)
	}
	for _, step := range []time.Duration{0, time.Minute, 50 * time.Second} {
		if err := s.Control.Advance(ctx, step); err != nil {
			return err
		}
		a, err := s.book(ctx, body, key)
		if err != nil {
			return err
		}
		if a.status != 409 || a.code() != "idempotency_in_progress" {
			return fmt.Errorf("before 2 minutes had passed a repeat was answered with %s, want 409 idempotency_in_progress", a)
		}
	}
	if err := s.Control.Advance(ctx, 20*time.Second); err != nil {
		return err
	}
	first, err := s.booked(ctx, body, key)
	if err != nil {
		return fmt.Errorf("after 2 minutes: %w", err)
	}
	return s.expectReplay(ctx, first, body, key)
}
