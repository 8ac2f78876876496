package mockserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"time"
)

// call is one checked request as an operation of the API sees it. Operations run one at a time per
// server, so that effect, ledger and held answer are one step.
type call struct {
	server    *Server
	conn      *connection
	now       time.Time
	params    []string // the path's variables, in order
	query     url.Values
	body      []byte
	key       string
	requestID string
	effects   []Effect
}

// answer is what an operation says: a value to encode or a problem.
type answer struct {
	status   int
	value    any
	location string
	problem  *problem
}

func ok(v any) answer                       { return answer{status: http.StatusOK, value: v} }
func created(location string, v any) answer { return answer{http.StatusCreated, v, location, nil} }
func refuse(p *problem) answer              { return answer{status: p.status(), problem: p} }

// effect notes that the call really changed something.
func (c *call) effect(kind, resource, reference string) {
	c.effects = append(c.effects, Effect{
		Connection: c.conn.name, Kind: kind, Resource: resource, Reference: reference,
		Key: c.key, RequestID: c.requestID, At: c.now,
	})
}

// decode reads the body into v. An empty body leaves v as it is.
func (c *call) decode(v any) *problem {
	if len(c.body) == 0 {
		return nil
	}
	return decodeJSON(c.body, v)
}

func decodeJSON(body []byte, v any) *problem {
	err := json.Unmarshal(body, v) // the whole body: a Decoder takes a bracket too many for the end
	if err == nil {
		return nil
	}
	if p := wrongTypes(body, reflect.TypeOf(v)).problem(); p != nil {
		return p
	}
	return &problem{Code: codeInvalidRequest, Message: "the body is not valid JSON: " + err.Error()}
}

// optional is a field of a PATCH: absent, null or a value.
type optional[T any] struct {
	set  bool // present in the body, null included
	null bool
	v    T
}

func (optional[T]) elem() reflect.Type { return reflect.TypeFor[T]() }

func (o *optional[T]) UnmarshalJSON(b []byte) error {
	o.set = true
	if string(b) == "null" {
		o.null = true
		return nil
	}
	return json.Unmarshal(b, &o.v)
}

// encode renders a value of the API. It does not escape HTML: bodies are not shown by browsers.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{"error":{"code":"internal","message":"mock server could not encode its answer"}}`)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
