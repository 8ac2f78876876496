package mockserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// faultReply is the answer of a fault that answers in the server's place; false = the request goes on.
func (s *Server) faultReply(x *exchange) (reply, bool) {
	f := x.plan.act
	switch f.Name {
	case faultStatus:
		return s.statusReply(f), true
	case faultRateLimit:
		rep := s.problemReply(&problem{Code: codeRateLimited, Message: "too many requests"})
		if f.RetryAfter != "" {
			rep.header.Set("Retry-After", string(f.RetryAfter))
		}
		return rep, true
	case faultPortal:
		return htmlReply(http.StatusOK, "<!doctype html><title>Willkommen im WLAN</title><p>Bitte melden Sie sich an."), true
	case faultProxyError:
		rep := htmlReply(http.StatusBadGateway, "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>")
		if f.RetryAfter != "" {
			rep.header.Set("Retry-After", string(f.RetryAfter))
		}
		return rep, true
	}
	return reply{}, false
}

func htmlReply(status int, page string) reply {
	return reply{status: status, header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, body: []byte(page), foreign: true}
}

// statusReply words the answer of a status fault as Flavoso would.
func (s *Server) statusReply(f faultSpec) reply {
	code := f.ErrorCode
	if code == "" {
		code = codeFor(f.Code)
	}
	rep := s.problemReply(&problem{Code: code, Message: "the mock server was told to answer " + strconv.Itoa(f.Code)})
	rep.status = f.Code
	if f.Body != nil {
		rep.body = []byte(*f.Body)
	}
	if f.Code == http.StatusNoContent || f.Code == http.StatusNotModified {
		rep.body = nil
	}
	if f.RetryAfter != "" {
		rep.header.Set("Retry-After", string(f.RetryAfter))
	} else if f.Code == http.StatusServiceUnavailable || f.Code == http.StatusTooManyRequests {
		rep.header.Set("Retry-After", "1") // D20
	}
	return rep
}

// deliver sends the answer through the faults on the way back.
func (s *Server) deliver(w http.ResponseWriter, x *exchange, rep reply) {
	if !s.wait(x.plan.after) {
		hangUp(w, false)
		return
	}
	f := x.plan.act
	switch {
	case f.Name == faultDropResponse:
		hangUp(w, false)
		return
	case x.plan.is(faultHang, StageAfter):
		s.hang(x)
		hangUp(w, false)
		return
	case f.Name == faultStatusAfterCommit:
		rep = s.statusReply(f)
	case f.Name == faultUnknownEnum:
		rep.body = withUnknowns(rep.body)
	}

	h := w.Header()
	for name, values := range rep.header {
		h[name] = values
	}
	h.Set("Date", s.clock.Now().Format(http.TimeFormat))
	h.Set("Content-Length", strconv.Itoa(len(rep.body)))
	if !rep.foreign {
		h.Set("X-Request-Id", x.requestID)
	}
	if rep.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	part, step := rep.body, len(rep.body)
	if f.Name == faultTruncate {
		part = rep.body[:min(*f.Bytes, len(rep.body))]
	}
	if f.Name == faultDrip {
		step = *f.Bytes
	}
	s.journal.update(x.entry, func(r *Request) {
		r.Status, r.Replayed = rep.status, rep.replayed
		if r.Method != http.MethodGet { // long lists would push everything else out of the journal
			r.Answer = part
		}
	})

	w.WriteHeader(rep.status)
	for rest := part; len(rest) > 0; {
		n := min(step, len(rest))
		if _, err := w.Write(rest[:n]); err != nil {
			return // the client left; what was to be done is done
		}
		rest = rest[n:]
		if len(rest) > 0 {
			_ = http.NewResponseController(w).Flush() // a client that left is noticed by the next Write
			if !s.wait(time.Duration(f.Delay)) {
				hangUp(w, false)
				return
			}
		}
	}
	if f.Name == faultTruncate {
		_ = http.NewResponseController(w).Flush() // a client that left has nothing to be cut off from
		hangUp(w, false)
	}
}

// withUnknowns gives an object, or every entry of a list, a status and a field that no client knows. Anything
// else stays.
func withUnknowns(body []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || len(fields) == 0 {
		return body
	}
	if status, ok := fields["status"]; ok {
		body = bytes.Replace(body, append([]byte(`"status":`), status...), []byte(`"status":"awaiting_drone"`), 1)
	}
	var entries []json.RawMessage
	if data, ok := fields["data"]; ok && json.Unmarshal(data, &entries) == nil {
		for i := range entries {
			entries[i] = withUnknowns(entries[i])
		}
		body = bytes.Replace(body, data, encode(entries), 1)
	}
	return append(bytes.TrimSuffix(body, []byte("}")), `,"future_field":{"since":"tomorrow"}}`...)
}

// hangUp closes the connection without another byte: in order (FIN), or as a break (RST).
func hangUp(w http.ResponseWriter, broken bool) {
	rc := http.NewResponseController(w)
	conn, _, err := rc.Hijack()
	switch {
	case err != nil: // taken over already, or gone
	case broken:
		reset(conn)
	default:
		_ = conn.Close() // the connection is given up either way
	}
}
