package mockserver

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// overlayJSON puts the fields of a JSON object over o. The caller has checked that it fits.
func overlayJSON(o *Order, raw json.RawMessage) {
	var given Order
	if json.Unmarshal(raw, &given) != nil {
		return
	}
	if given.Items != nil {
		o.Items = nil // Unmarshal would write into the old list's elements
	}
	if given.Discounts != nil {
		o.Discounts = nil
	}
	_ = json.Unmarshal(raw, o) // it fitted an Order a moment ago
}

func (s *Server) adminEffects(r *http.Request) (int, any, error) {
	connection := r.URL.Query().Get("connection")
	out := []Effect{}
	for _, e := range s.Effects() {
		if connection == "" || e.Connection == connection {
			out = append(out, e)
		}
	}
	return listOf(out)
}

// adminRequest is a journal entry as the admin API shows it.
type adminRequest struct {
	Seq        int       `json:"seq"`
	Connection string    `json:"connection"`
	Conn       int       `json:"conn"`
	Method     string    `json:"method"`
	Target     string    `json:"target"`
	Key        string    `json:"key"`
	Body       []byte    `json:"body_base64"`
	Status     int       `json:"status"`
	Replayed   bool      `json:"replayed"`
	RequestID  string    `json:"request_id"`
	Fault      string    `json:"fault"`
	At         time.Time `json:"at"`
}

func (s *Server) adminRequests(r *http.Request) (int, any, error) {
	connection := r.URL.Query().Get("connection")
	out := []adminRequest{}
	for _, q := range s.Requests() {
		if connection == "" || q.Connection == connection {
			out = append(out, adminRequest{q.Seq, q.Connection, q.Conn, q.Method, q.Target, q.Key, q.Body, q.Status,
				q.Replayed, q.RequestID, q.Fault, q.At})
		}
	}
	return listOf(out)
}

func (s *Server) adminKeys(r *http.Request) (int, any, error) {
	return listOf(s.Keys(r.URL.Query().Get("connection")))
}

func (s *Server) adminStatus(*http.Request) (int, any, error) {
	requests, effects := s.Requests(), s.Effects()
	s.faults.mu.Lock()
	faults := 0
	for _, f := range s.faults.rules {
		if !f.gone {
			faults++
		}
	}
	s.faults.mu.Unlock()
	keys := len(s.Keys(""))
	s.mu.Lock()
	defer s.mu.Unlock()
	orders, bookings := 0, 0
	for _, c := range s.connections {
		orders += len(c.orders)
		bookings += len(c.bookingList)
	}
	return http.StatusOK, map[string]any{
		"clock": map[string]string{"now": s.clock.Now().Format(time.RFC3339Nano)}, "seed": s.config.seed, "open": !s.config.knownTokens,
		"base_url": s.baseURL, "switches": s.Switches(),
		"counts": map[string]int{
			"connections": len(s.connections), "orders": orders, "bookings": bookings, "keys": keys,
			"faults": faults, "requests": len(requests), "effects": len(effects),
		},
	}, nil
}

func (s *Server) adminSnapshot(*http.Request) (int, any, error) {
	snap, err := s.Snapshot()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, json.RawMessage(snap), nil
}

func (s *Server) adminRestore(r *http.Request) (int, any, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<30))
	if err != nil {
		return 0, nil, badRequest(err)
	}
	if len(body) == 0 {
		return 0, nil, badRequest(errors.New("the body must be a snapshot"))
	}
	if err := s.Restore(body); err != nil {
		return 0, nil, badRequest(err)
	}
	return http.StatusNoContent, nil, nil
}
