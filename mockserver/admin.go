package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Where the admin API lives: the list of its calls, and the calls. It needs no token: a mock server has no
// secrets.
const (
	adminRoot = "/_mock"
	adminPath = adminRoot + "/"
)

// adminError is a refusal of the admin API.
type adminError struct {
	status  int
	message string
	allow   []string // the methods there are, with 405
}

func (e *adminError) Error() string { return e.message }

// badRequest makes an error the caller's; nil stays nil.
func badRequest(err error) error {
	var already *adminError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &adminError{status: http.StatusBadRequest, message: err.Error()}
}

// serveAdmin serves the admin API: JSON in, JSON out, refusals as {"error":{"message":…}}.
func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request, path string) {
	handlers := map[string]func(*http.Request) (int, any, error){
		"POST reset":              s.adminReset,
		"GET connections":         s.adminConnections,
		"POST connections":        s.adminConnect,
		"POST orders":             s.adminAddOrder,
		"GET orders":              s.adminOrders,
		"PATCH orders/{id}":       s.adminChangeOrder,
		"DELETE orders/{id}":      s.adminDeleteOrder,
		"POST orders/{id}/cancel": s.adminCancelOrder,
		"GET bookings":            s.adminBookings,
		"PATCH bookings/{id}":     s.adminChangeBooking,
		"GET clock":               s.adminClock,
		"POST clock":              s.adminMoveClock,
		"GET faults":              s.adminFaults,
		"POST faults":             s.adminInject,
		"DELETE faults":           s.adminRemoveFaults,
		"DELETE faults/{id}":      s.adminRemoveFaults,
		"GET effects":             s.adminEffects,
		"GET requests":            s.adminRequests,
		"GET idempotency":         s.adminKeys,
		"GET status":              s.adminStatus,
		"GET switches":            s.adminSwitches,
		"POST switches":           s.adminSwitch,
		"POST snapshot":           s.adminSnapshot,
		"POST restore":            s.adminRestore,
		"GET openapi.json":        s.adminOpenAPI,
		"GET ":                    s.adminList,
	}
	call, id := adminCallOf(strings.TrimPrefix(strings.TrimPrefix(path, adminRoot), "/"))
	h := handlers[r.Method+" "+call]
	if h == nil {
		err := &adminError{status: http.StatusNotFound, message: "no such admin call: " + r.Method + " " + path + "; GET " + adminRoot + " lists them"}
		for _, key := range sortedKeys(handlers) {
			if method, is := strings.CutSuffix(key, " "+call); is {
				err.status, err.message, err.allow = http.StatusMethodNotAllowed, "this admin call has no method "+r.Method, append(err.allow, method)
			}
		}
		writeAdmin(w, 0, nil, err)
		return
	}
	if err := checkQuery(r, call); err != nil {
		writeAdmin(w, 0, nil, err)
		return
	}
	r.SetPathValue("id", id)
	status, v, err := h(r)
	if s.faults.refusing() { // no connection is kept alive then, and the client should know
		w.Header().Set("Connection", "close")
	}
	writeAdmin(w, status, v, err)
}

// adminCallOf takes a path below the admin API apart: orders/o-1/cancel is the call orders/{id}/cancel and
// the id o-1.
func adminCallOf(path string) (call, id string) {
	name, rest, more := strings.Cut(path, "/")
	if !more {
		return name, ""
	}
	escaped, verb, hasVerb := strings.Cut(rest, "/")
	id, err := url.PathUnescape(escaped)
	if err != nil || id == "" {
		return path, "" // no call is named so
	}
	call = name + "/{id}"
	if hasVerb {
		call += "/" + verb
	}
	return call, id
}

func writeAdmin(w http.ResponseWriter, status int, v any, err error) {
	if err != nil {
		status = http.StatusInternalServerError
		var refused *adminError
		if errors.As(err, &refused) {
			status = refused.status
			if len(refused.allow) > 0 {
				w.Header().Set("Allow", strings.Join(refused.allow, ", "))
			}
		}
		v = map[string]any{"error": map[string]string{"message": err.Error()}}
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	body, isRaw := v.(json.RawMessage)
	if !isRaw {
		body = encode(v)
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have left
}

// checkQuery refuses parameters a call has not: with a misspelt one it would answer about everything.
func checkQuery(r *http.Request, call string) error {
	known := map[string]bool{}
	for _, c := range adminCalls() {
		if c.method == r.Method && c.path == call {
			for _, p := range c.query {
				known[p.name] = true
			}
		}
	}
	for _, given := range sortedKeys(r.URL.Query()) {
		if !known[given] {
			return badRequest(fmt.Errorf("unknown parameter %q; there are: %s", given, strings.Join(sortedKeys(known), ", ")))
		}
	}
	return nil
}

// adminList answers with what the admin API can do.
func (s *Server) adminList(*http.Request) (int, any, error) {
	type listed struct {
		Call    string `json:"call"`
		Summary string `json:"summary"`
	}
	out := []listed{}
	for _, c := range adminCalls() {
		out = append(out, listed{c.method + " " + c.location(), c.summary})
	}
	return listOf(out)
}

func listOf(data any) (int, any, error) {
	return http.StatusOK, map[string]any{"data": data}, nil
}

func (s *Server) adminReset(*http.Request) (int, any, error) {
	s.Reset()
	return http.StatusOK, map[string]string{"now": s.clock.Now().Format(time.RFC3339Nano)}, nil
}

type adminConnection struct {
	Connection string `json:"connection"`
	Token      string `json:"token"`
}

func (s *Server) adminConnections(*http.Request) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []adminConnection{}
	for _, name := range sortedKeys(s.connections) {
		out = append(out, adminConnection{name, s.tokenOf(name)})
	}
	return listOf(out)
}

func (s *Server) adminConnect(r *http.Request) (int, any, error) {
	var in struct {
		Connection string `json:"connection"`
		Rotate     bool   `json:"rotate"`    // end the tokens, give a new one (D6)
		Revoke     bool   `json:"revoke"`    // end the tokens
		Reconnect  bool   `json:"reconnect"` // make the connection anew (D6)
		Issue      bool   `json:"issue"`     // give a further token
	}
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	if err := checkConnection(in.Connection); err != nil {
		return 0, nil, err
	}
	verbs := 0
	for _, asked := range []bool{in.Reconnect, in.Rotate, in.Issue, in.Revoke} {
		if asked {
			verbs++
		}
	}
	if verbs > 1 {
		return 0, nil, badRequest(errors.New("one of issue, rotate, revoke and reconnect at a time"))
	}
	out := adminConnection{Connection: in.Connection}
	switch {
	case in.Reconnect:
		out.Token = s.Reconnect(in.Connection)
	case in.Rotate:
		out.Token = s.RotateToken(in.Connection)
	case in.Issue:
		out.Token = s.IssueToken(in.Connection)
	case in.Revoke:
		s.RevokeTokens(in.Connection)
	default:
		out.Token = s.Token(in.Connection)
	}
	return http.StatusOK, out, nil
}

func checkConnection(name string) error {
	if name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return badRequest(errors.New("connection must be 1 to 128 printable ASCII characters without spaces"))
	}
	return nil
}

func (s *Server) adminAddOrder(r *http.Request) (int, any, error) {
	var in struct {
		Connection string          `json:"connection"`
		Order      json.RawMessage `json:"order"`
		Lines      int             `json:"lines"` // a large order with so many lines
	}
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	if err := checkConnection(in.Connection); err != nil {
		return 0, nil, err
	}
	if in.Lines < 0 || in.Lines > 10_000 {
		return 0, nil, badRequest(errors.New("lines must be 0 to 10000"))
	}
	if len(in.Order) > 0 {
		if err := checkOrder(in.Order); err != nil {
			return 0, nil, err
		}
	}
	id := ""
	o, ok := s.addOrder(in.Connection, false, func(base *Order) {
		if in.Lines > 0 {
			overlay(base, LargeOrder(in.Lines))
		}
		if len(in.Order) > 0 {
			overlayJSON(base, in.Order)
		}
		id = base.ID
	})
	if !ok {
		return 0, nil, &adminError{status: http.StatusConflict, message: in.Connection + " has an order with the id " + id + " already"}
	}
	return http.StatusCreated, o, nil
}

func (s *Server) adminOrders(r *http.Request) (int, any, error) {
	name := r.URL.Query().Get("connection")
	if err := checkConnection(name); err != nil {
		return 0, nil, err
	}
	return listOf(s.Orders(name))
}

func (s *Server) adminClock(*http.Request) (int, any, error) {
	return http.StatusOK, map[string]string{"now": s.clock.Now().Format(time.RFC3339Nano)}, nil
}

func (s *Server) adminMoveClock(r *http.Request) (int, any, error) {
	var in struct {
		Advance *duration  `json:"advance"`
		Now     *time.Time `json:"now"`
	}
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	var to time.Time
	switch {
	case in.Advance != nil && in.Now == nil:
		to = s.clock.Now().Add(time.Duration(*in.Advance))
	case in.Advance == nil && in.Now != nil:
		to = *in.Now
	default:
		return 0, nil, badRequest(errors.New(`give either advance, such as "2m", or now, an RFC 3339 instant`))
	}
	if today := time.Now(); to.Before(today.AddDate(-clockReach, 0, 0)) || to.After(today.AddDate(clockReach, 0, 0)) {
		return 0, nil, badRequest(fmt.Errorf("the clock moves %d years at most away from the machine's; %s is further", clockReach, to.UTC().Format(time.RFC3339)))
	}
	if in.Advance != nil {
		s.clock.Advance(time.Duration(*in.Advance))
	} else {
		s.clock.Set(to)
	}
	return s.adminClock(r)
}

// clockReach is how many years the clock can be away from the machine's. What Go counts of time ends at 292.
const clockReach = 200
