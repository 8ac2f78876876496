package mutants

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flavoso/flavoso-go/mockserver"
)

// All returns every mutant. Those that remember something start empty.
func All() []Mutant {
	return append(append(aboutKeys(), aboutHolding()...), aboutObjects()...)
}

// changing is a mutant that changes the request on its way in.
func changing(name, breaks string, change func(r *http.Request)) Mutant {
	return Mutant{Name: name, Breaks: breaks, Wrap: api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		change(r)
		right.ServeHTTP(w, r)
	})}
}

// answering is a mutant that changes the answer on its way out; a request without an answer is left alone.
func answering(name, breaks string, concerns func(*http.Request) bool, change func(r *http.Request, a *recorded)) Mutant {
	return Mutant{Name: name, Breaks: breaks, Wrap: api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
		if !concerns(r) {
			right.ServeHTTP(w, r)
			return
		}
		if a := catch(right, w, r); a != nil {
			change(r, a)
			a.send(w)
		}
	})}
}

func setKey(r *http.Request, change func(string) string) {
	if keyed(r) {
		r.Header.Set("Idempotency-Key", change(r.Header.Get("Idempotency-Key")))
	}
}

// aboutKeys are servers that get wrong what a key is and what it is valid for.
func aboutKeys() []Mutant {
	return []Mutant{
		answering("no request id on refusals", "F1", func(*http.Request) bool { return true }, func(_ *http.Request, a *recorded) {
			if a.status >= 400 {
				a.header.Del("X-Request-Id")
			}
		}),
		answering("no request id on replays", "F1", func(*http.Request) bool { return true }, func(_ *http.Request, a *recorded) {
			if a.header.Get("Idempotent-Replayed") != "" {
				a.header.Del("X-Request-Id")
			}
		}),
		answering("refusals as plain text", "F1", func(*http.Request) bool { return true }, func(_ *http.Request, a *recorded) {
			if a.status == 404 {
				a.header.Set("Content-Type", "text/plain")
			}
		}),
		{Name: "the key counts on PATCH too", Breaks: "F2", Wrap: func(right http.Handler) http.Handler {
			seen := &cache{}
			return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPatch || r.Header.Get("Idempotency-Key") == "" {
					right.ServeHTTP(w, r)
					return
				}
				if a := seen.get(id(r)); a != nil {
					a.header.Set("Idempotent-Replayed", "true")
					a.send(w)
					return
				}
				if a := catch(right, w, r); a != nil {
					seen.put(id(r), a)
					a.send(w)
				}
			})(right)
		}},
		answering("malformed keys are refused on PATCH too", "F2", func(r *http.Request) bool { return r.Method == http.MethodPatch },
			func(r *http.Request, a *recorded) {
				if len(r.Header.Get("Idempotency-Key")) > 255 {
					a.status = 400
				}
			}),
		changing("a key that is too long is cut", "F3", func(r *http.Request) {
			setKey(r, func(k string) string { return k[:min(len(k), 255)] })
		}),
		changing("keys are compared by their first 64 characters", "F3", func(r *http.Request) {
			if k := r.Header.Get("Idempotency-Key"); len(k) <= 255 {
				setKey(r, func(k string) string { return k[:min(len(k), 64)] })
			}
		}),
		changing("keys are compared without case", "F3", func(r *http.Request) { setKey(r, strings.ToLower) }),
		changing("an empty key counts as none", "F3", func(r *http.Request) {
			if keyed(r) && r.Header.Get("Idempotency-Key") == "" {
				r.Header.Del("Idempotency-Key")
			}
		}),
		{Name: "a key is valid for all connections", Breaks: "F4", Wrap: func(right http.Handler) http.Handler {
			first := &cache{}
			return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("Idempotency-Key")
				if a := first.get(key); keyed(r) && a != nil && a.header.Get("by") != r.Header.Get("Authorization") {
					a.send(w)
					return
				}
				if !keyed(r) || key == "" {
					right.ServeHTTP(w, r)
					return
				}
				passing := &tee{ResponseWriter: w}
				right.ServeHTTP(passing, r)
				if passing.status >= 200 && passing.status < 300 && first.get(key) == nil {
					a := passing.copy()
					a.header.Set("by", r.Header.Get("Authorization"))
					a.header.Set("Idempotent-Replayed", "true")
					first.put(key, a)
				}
			})(right)
		}},
		changing("a key is valid per token", "F4", func(r *http.Request) {
			setKey(r, func(k string) string {
				if k == "" || len(k) > 200 {
					return k
				}
				return fmt.Sprintf("%s/%x", k, sum(r.Header.Get("Authorization")))
			})
		}),
		changing("the body is compared as parsed JSON", "F7", func(r *http.Request) {
			if !keyed(r) {
				return
			}
			var v any
			body := readBody(r)
			if json.Unmarshal(body, &v) == nil {
				if plain, err := json.Marshal(v); err == nil {
					setBody(r, plain)
				}
			}
		}),
		changing("the body is compared without white space around it", "F7", func(r *http.Request) {
			if keyed(r) {
				setBody(r, []byte(strings.TrimSpace(string(readBody(r)))))
			}
		}),
		changing("a key is valid per path", "F7", func(r *http.Request) {
			setKey(r, func(k string) string {
				if k == "" || len(k) > 200 {
					return k
				}
				return fmt.Sprintf("%s/%x", k, sum(r.URL.Path))
			})
		}),
		{Name: "a used key replays whatever is asked", Breaks: "F7", Wrap: func(right http.Handler) http.Handler {
			first := &cache{}
			return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
				if !keyed(r) {
					right.ServeHTTP(w, r)
					return
				}
				if a := first.get(id(r)); a != nil {
					if r.URL.Path == a.header.Get("path") {
						a.send(w)
						return
					}
				}
				passing := &tee{ResponseWriter: w}
				right.ServeHTTP(passing, r)
				if passing.status >= 200 && passing.status < 300 && first.get(id(r)) == nil {
					a := passing.copy()
					a.header.Set("path", r.URL.Path)
					a.header.Set("Idempotent-Replayed", "true")
					first.put(id(r), a)
				}
			})(right)
		}},
		answering("a reused key is a 409", "F7", keyed, func(_ *http.Request, a *recorded) {
			if strings.Contains(a.body.String(), "idempotency_key_reused") {
				a.status = http.StatusConflict
			}
		}),
		changing("the body decides, not the key", "F11", func(r *http.Request) {
			body := readBody(r)
			setKey(r, func(k string) string {
				if k == "" || len(k) > 255 || !printable(k) {
					return k
				}
				return fmt.Sprintf("body-%x", sum(string(body)))
			})
		}),
		answering("only UUIDs are keys", "F12", func(r *http.Request) bool {
			k := r.Header.Get("Idempotency-Key")
			return keyed(r) && strings.HasPrefix(k, "accept-") || strings.HasPrefix(k, "ack-")
		}, func(_ *http.Request, a *recorded) { a.status = 400 }),
	}
}

// aboutHolding are servers that hold the wrong answers, too long, too short, or not before they act.
func aboutHolding() []Mutant {
	return []Mutant{
		{Name: "holds for half an hour", Breaks: "F5", Switches: func(s *mockserver.Switches) { s.HoldFor = time.Hour / 2 }},
		{Name: "holds for ever", Breaks: "F5", Switches: func(s *mockserver.Switches) { s.HoldFor = 10_000 * time.Hour }},
		answering("replays without the mark", "F6", keyed, func(_ *http.Request, a *recorded) { a.header.Del("Idempotent-Replayed") }),
		answering("marks the first answer too", "F6", keyed, func(_ *http.Request, a *recorded) {
			if a.header.Get("Idempotent-Replayed") == "" {
				a.header.Set("Idempotent-Replayed", "false")
			}
		}),
		answering("replays with 200", "F6", keyed, func(_ *http.Request, a *recorded) {
			if a.header.Get("Idempotent-Replayed") == "true" {
				a.status = http.StatusOK
			}
		}),
		answering("replays the body formatted anew", "F6", keyed, func(_ *http.Request, a *recorded) {
			if a.header.Get("Idempotent-Replayed") == "true" {
				a.replace(`":`, `": `)
			}
		}),
		{Name: "replays what the object is now", Breaks: "F6", Wrap: func(right http.Handler) http.Handler {
			return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
				if !keyed(r) {
					right.ServeHTTP(w, r)
					return
				}
				a := catch(right, w, r)
				if a == nil {
					return
				}
				var b struct{ Object, ID string }
				if a.header.Get("Idempotent-Replayed") == "true" && json.Unmarshal(a.body.Bytes(), &b) == nil && b.Object == "booking" {
					get := r.Clone(r.Context())
					get.Method, get.URL.Path, get.URL.RawPath, get.RequestURI = "GET", "/v1/bookings/"+b.ID, "", ""
					setBody(get, nil)
					if now := catch(right, w, get); now != nil {
						a.body = now.body
					}
				}
				a.send(w)
			})(right)
		}},
		{Name: "looks first and claims later", Breaks: "F8", Wrap: func(right http.Handler) http.Handler {
			done := &cache{}
			return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
				if !keyed(r) || r.URL.Path != "/v1/bookings" {
					right.ServeHTTP(w, r)
					return
				}
				held := done.get(id(r)) != nil
				if !held {
					time.Sleep(20 * time.Millisecond) // the gap between looking and writing
				}
				if !held && done.get(id(r)) != nil { // somebody else was first, and nobody noticed
					r.Header.Del("Idempotency-Key")
					right.ServeHTTP(w, r)
					return
				}
				done.put(id(r), &recorded{})
				right.ServeHTTP(w, r)
			})(right)
		}},
		answering("in progress is a 503", "F8", keyed, func(_ *http.Request, a *recorded) {
			if strings.Contains(a.body.String(), "idempotency_in_progress") {
				a.status = http.StatusServiceUnavailable
			}
		}),
		{Name: "a repeat waits for the first", Breaks: "F8", Wrap: func(right http.Handler) http.Handler {
			var locks sync.Map
			return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
				if !keyed(r) {
					right.ServeHTTP(w, r)
					return
				}
				l, _ := locks.LoadOrStore(id(r), &sync.Mutex{})
				mu, _ := l.(*sync.Mutex)
				mu.Lock()
				defer mu.Unlock()
				right.ServeHTTP(w, r)
			})(right)
		}},
		{Name: "an aborted request frees its key at once", Breaks: "F9", Switches: func(s *mockserver.Switches) { s.AbortAfter = time.Nanosecond }},
		{Name: "an aborted request frees its key after a minute", Breaks: "F9", Switches: func(s *mockserver.Switches) { s.AbortAfter = time.Minute }},
		{Name: "an aborted request keeps its key for ever", Breaks: "F9", Switches: func(s *mockserver.Switches) { s.AbortAfter = 1000 * time.Hour }},
		holding("holds 5xx", "F10", func(status int, _ string) bool { return status >= 500 }),
		holding("holds conflicts", "F10", func(status int, body string) bool { return status == 409 && strings.Contains(body, `"conflict"`) }),
	}
}

// holding is a mutant that also holds answers it must not.
func holding(name, breaks string, wrongly func(status int, body string) bool) Mutant {
	return Mutant{Name: name, Breaks: breaks, Wrap: func(right http.Handler) http.Handler {
		held := &cache{}
		return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
			if a := held.get(id(r)); keyed(r) && a != nil {
				a.send(w)
				return
			}
			passing := &tee{ResponseWriter: w}
			right.ServeHTTP(passing, r)
			if keyed(r) && !passing.hijacked && wrongly(passing.status, passing.body.String()) {
				a := passing.copy()
				a.header.Set("Idempotent-Replayed", "true")
				held.put(id(r), a)
			}
		})(right)
	}}
}

var orderPath = regexp.MustCompile(`/orders/[^/]+/(accept|acknowledge)$`)

// aboutObjects are servers that get the operations themselves wrong.
func aboutObjects() []Mutant {
	var toggle atomic.Bool
	repeats := func(name, breaks, action string, wrong func(a *recorded)) Mutant {
		return Mutant{Name: name, Breaks: breaks, Wrap: func(right http.Handler) http.Handler {
			seen := &cache{}
			return api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
				m := orderPath.FindStringSubmatch(r.URL.Path)
				if r.Method != http.MethodPost || m == nil || m[1] != action {
					right.ServeHTTP(w, r)
					return
				}
				a := catch(right, w, r)
				if a == nil {
					return
				}
				if seen.get(r.URL.Path) != nil && a.header.Get("Idempotent-Replayed") == "" {
					wrong(a)
				}
				seen.put(r.URL.Path, a)
				a.send(w)
			})(right)
		}}
	}
	return []Mutant{
		repeats("accepting twice is a conflict", "F13", "accept", func(a *recorded) { a.status = http.StatusConflict }),
		repeats("accepting twice moves the order on", "F13", "accept", func(a *recorded) {
			a.replace(`"confirmed"`, `"preparing"`)
		}),
		repeats("acknowledging twice is a conflict", "F14", "acknowledge", func(a *recorded) { a.status = http.StatusConflict }),
		answering("a PATCH toggles", "F15", func(r *http.Request) bool {
			return r.Method == http.MethodPatch && r.Header.Get("Idempotency-Key") == ""
		},
			func(_ *http.Request, a *recorded) {
				if toggle.Swap(!toggle.Load()) {
					a.replace("window", "")
				}
			}),
		answering("a key on accept hurts", "F16", func(r *http.Request) bool { return keyed(r) && orderPath.MatchString(r.URL.Path) },
			func(_ *http.Request, a *recorded) { a.header.Del("Idempotent-Replayed") }),
		changing("bookings are never doubled, key or not", "F17", func(r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == "/v1/bookings" && len(r.Header["Idempotency-Key"]) == 0 {
				r.Header.Set("Idempotency-Key", fmt.Sprintf("body-%x", sum(string(readBody(r)))))
			}
		}),
		answering("an order has no object", "F17", func(r *http.Request) bool { return r.Method == "GET" && strings.Contains(r.URL.Path, "/orders/") },
			func(_ *http.Request, a *recorded) {
				a.replace(`"object":"order",`, "")
			}),
	}
}
