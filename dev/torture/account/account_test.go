package account

import (
	"os"
	"path/filepath"
	"testing"
)

// A process that is killed while it writes leaves half a line; the next one goes on behind it.
func TestHalfALineIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account.jsonl")
	write := func(life int, op string) {
		w, err := Append(path, life)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(Event{What: Began, Op: op})
	}
	write(1, "a")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, text[:len(text)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	write(2, "b")
	events, err := Read(path)
	if err != nil || len(events) != 2 || events[0].Op != "a" || events[1].Op != "b" || events[1].Life != 2 {
		t.Fatal(events, err)
	}
	if events, err := Read(path + ".none"); err != nil || events != nil {
		t.Fatal(events, err)
	}
}

// The tail begins with a whole line.
func TestTail(t *testing.T) {
	w, err := Append(filepath.Join(t.TempDir(), "account.jsonl"), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		w.Write(Event{What: Began, Op: "a"})
	}
	events, err := w.Tail(1000)
	if err != nil || len(events) == 0 || len(events) > 20 {
		t.Fatal(len(events), err)
	}
	for _, e := range events {
		if e.Op != "a" {
			t.Fatal(e)
		}
	}
}
