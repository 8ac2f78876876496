package main

import (
	"encoding/json"
	"net/http"
	"sync"
)

// bank stands for somebody else's service: it charges once per key, and can be told to lose its answers.
type bank struct {
	mu      sync.Mutex
	charges map[string]charge
	lose    int
}

func newBank() *bank { return &bank{charges: make(map[string]charge)} }

func (b *bank) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /charges/{key}", b.put)
	mux.HandleFunc("GET /charges/{key}", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		c, ok := b.charges[r.PathValue("key")]
		b.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		writeJSON(w, http.StatusOK, c)
	})
	mux.HandleFunc("GET /charges", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		writeJSON(w, http.StatusOK, map[string]int{"charges": len(b.charges)})
	})
	mux.HandleFunc("POST /lose", func(w http.ResponseWriter, r *http.Request) {
		var n struct {
			Answers int `json:"answers"`
		}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.mu.Lock()
		b.lose = n.Answers
		b.mu.Unlock()
		writeJSON(w, http.StatusOK, map[string]int{"answers to lose": n.Answers})
	})
	return mux
}

func (b *bank) put(w http.ResponseWriter, r *http.Request) {
	var c charge
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if c.Amount > 100_000 {
		http.Error(w, "declined", http.StatusPaymentRequired)
		return
	}
	b.mu.Lock()
	b.charges[r.PathValue("key")] = c
	lost := b.lose > 0
	if lost {
		b.lose--
	}
	b.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler) // charged, and the connection is cut
	}
	writeJSON(w, http.StatusOK, c)
}
