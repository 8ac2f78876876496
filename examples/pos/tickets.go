package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/flavoso/flavoso-go"
)

// tickets are the orders as the till knows them. A real till has a database for that; here it is a file.
type tickets struct {
	path string

	mu       sync.Mutex
	Timezone string    // of the restaurant, for "until 22:00"
	List     []*ticket // ticket 1 is the first
}

// ticket is an order in the till. Its place in the list is its number.
type ticket struct {
	Order  string // Flavoso's id
	Text   string // what is printed
	Status flavoso.OrderStatus
}

func openTickets(path string) (*tickets, error) {
	t := &tickets{path: path, Timezone: "Europe/Berlin"}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(data, t)
	}
	return t, err
}

// take notes an order, or its new status, and returns its number. It is on disk when take returns.
func (t *tickets) take(o *flavoso.Order, text string) (number int, isNew bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, known := range t.List {
		if known.Order == o.ID {
			known.Status = o.Status
			return i + 1, false, t.save()
		}
	}
	t.List = append(t.List, &ticket{Order: o.ID, Text: text, Status: o.Status})
	return len(t.List), true, t.save()
}

// get returns the ticket with a number.
func (t *tickets) get(number int) (ticket, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number < 1 || number > len(t.List) {
		return ticket{}, false
	}
	return *t.List[number-1], true
}

// all returns every ticket.
func (t *tickets) all() []ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]ticket, len(t.List))
	for i, known := range t.List {
		out[i] = *known
	}
	return out
}

func (t *tickets) timezone() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Timezone
}

func (t *tickets) setTimezone(zone string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Timezone = zone
	return t.save()
}

// save writes the file anew and moves it into place, so that a power cut leaves the old or the new one.
func (t *tickets) save() error {
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(t.path), "tickets-*.tmp")
	if err != nil {
		return err
	}
	name := f.Name()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return os.Rename(name, t.path)
}
