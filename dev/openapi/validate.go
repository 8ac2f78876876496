// Package openapi validates exchanges with the mock server against its OpenAPI document: every request
// that was carried out must be one the document describes, and so must every answer.
package openapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// Validator holds a document.
type Validator struct{ router routers.Router }

// Exchange is one request and its answer.
type Exchange struct {
	Test         string
	Method, Path string // the path below the base URL, with its query
	Header       http.Header
	Body         []byte
	Status       int
	AnswerHeader http.Header
	Answer       []byte
}

// New reads and checks a document.
func New(document []byte) (*Validator, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("openapi: reading the document: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("openapi: the document is not valid: %w", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return &Validator{router}, nil
}

// Check says what the document has against an exchange.
func (v *Validator) Check(x Exchange) error {
	base := "https://api.flavoso.com/v1"
	if strings.HasPrefix(x.Path, "/_mock") {
		base = "http://127.0.0.1:4010"
	}
	req, err := http.NewRequest(x.Method, base+x.Path, bytes.NewReader(x.Body))
	if err != nil {
		return err
	}
	req.Header = x.Header.Clone()
	route, params, err := v.router.FindRoute(req)
	if err != nil {
		if x.Status == http.StatusNotFound || x.Status == http.StatusMethodNotAllowed {
			return nil // no such operation, and the server says so
		}
		return fmt.Errorf("%s %s was answered with %d and is not described: %w", x.Method, x.Path, x.Status, err)
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if x.Status < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			return fmt.Errorf("%s %s was carried out, but its request is not described: %w", x.Method, x.Path, err)
		}
	}
	if len(x.Answer) > 0 && !strings.HasPrefix(x.AnswerHeader.Get("Content-Type"), "application/json") {
		return fmt.Errorf("%s %s was answered with %s", x.Method, x.Path, x.AnswerHeader.Get("Content-Type"))
	}
	if err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: x.Status, Header: x.AnswerHeader, Body: io.NopCloser(bytes.NewReader(x.Answer)), Options: in.Options,
	}); err != nil {
		return fmt.Errorf("%s %s: the answer with %d is not described: %w", x.Method, x.Path, x.Status, err)
	}
	return nil
}
