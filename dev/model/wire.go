package main

import (
	"fmt"
	"net/http"

	"github.com/flavoso/flavoso-go/internal/wire"
)

// received is what an attempt takes an answer for: wire.Judge, which is the product's, decides.
func received(a answer, clean bool) answer {
	c := 0
	if clean {
		c = 1
	}
	r := 0
	if a.replayed {
		r = 1
	}
	got := judged[a.class][r][c]
	got.neverSent, got.control, got.forLong = a.neverSent, a.control, a.forLong
	return got
}

// judged holds every answer as it is taken.
var judged = func() (t [len(classNames)][2][2]answer) {
	for c := range t {
		for r := range 2 {
			for clean := range 2 {
				v := wire.Judge(exchange(class(c), r == 1), wire.Facts{SeenRequestID: true, Clean: clean == 1}, epoch)
				t[c][r][clean] = answer{class: class(v.Class), replayed: v.Replayed}
			}
		}
	}
	return t
}()

// exchange is an answer of the class as it comes over the wire.
func exchange(c class, replayed bool) wire.Exchange {
	x := wire.Exchange{Whole: true, Header: http.Header{"X-Request-Id": {fmt.Sprintf("req_%024x", 1)}, "Content-Type": {"application/json"}}}
	if replayed {
		x.Header.Set("Idempotent-Replayed", "true")
	}
	problem := func(status int, code string) {
		x.Status, x.Body = status, fmt.Appendf(nil, `{"error":{"code":%q,"message":"no"}}`, code)
	}
	switch c {
	case broken:
		x.Whole, x.Header = false, nil
	case success:
		x.Status, x.Body = http.StatusCreated, []byte(`{"id":"1"}`)
	case successCut:
		x.Status, x.Body, x.Whole = http.StatusCreated, []byte(`{"id`), false
	case inProgress:
		problem(http.StatusConflict, wire.CodeInProgress)
	case conflict:
		if problem(http.StatusConflict, wire.CodeConflict); replayed {
			problem(http.StatusNotFound, wire.CodeNotFound) // a conflict is never held (F10)
		}
	case keyReused:
		problem(http.StatusUnprocessableEntity, wire.CodeKeyReused)
	case refused:
		problem(http.StatusUnprocessableEntity, wire.CodeValidationFailed)
	case unauthorized:
		problem(http.StatusUnauthorized, wire.CodeUnauthorized)
	case forbidden:
		problem(http.StatusForbidden, wire.CodeForbidden)
	case retry:
		problem(http.StatusServiceUnavailable, wire.CodeUnavailable)
	case notAuthored:
		x.Status, x.Body, x.Header = http.StatusOK, []byte(`<html>`), http.Header{"Content-Type": {"text/html"}}
	}
	return x
}
