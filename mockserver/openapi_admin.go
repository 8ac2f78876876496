package mockserver

import (
	"cmp"
	"strings"
)

// adminCall is one call of the admin API.
type adminCall struct {
	method, path, summary string // the path below /_mock/; "" is /_mock itself
	query                 []param
	body, answer          schema
	status                string
}

func (c adminCall) location() string { return strings.TrimSuffix(adminPath+c.path, "/") }

// adminCalls describes the admin API. It lives beside the base path and takes no token.
func adminCalls() []adminCall {
	boolean, number := schema{"type": "boolean"}, schema{"type": "integer"}
	now := object("now", instant())
	token := object("connection", text(), "token", str())
	anything := schema{"type": "object"}
	byConnection := param{"connection", "Only what belongs to this connection.", str(), false}
	ofConnection := param{"connection", "The connection it belongs to; required.", text(), false}
	data := func(entry schema) schema { return object("data", arrayOf(entry)) }
	fault := object("fault", enum(faultNames...), "method?", str(), "path?", str(), "connection?", str(), "nth?", number, "times?", number,
		"ratio?", schema{"type": "number", "minimum": 0, "maximum": 1}, "optional?", boolean, "code?", number, "error_code?", str(), "body?", str(),
		"retry_after?", schema{"type": []any{"string", "number"}}, "bytes?", number, "delay?", str(),
		"stage?", enum(StageBefore, StageInHandler, StageAfter), "not_held?", boolean)
	armed := schema{"allOf": []any{fault, object("id", str(), "fired", number, "seen", number)}}
	return []adminCall{
		{"GET", "", "List the calls of the admin API", nil, nil, data(object("call", str(), "summary", str())), "200"},
		{"POST", "reset", "Bring everything back to the seed", nil, nil, now, "200"},
		{"GET", "connections", "List the connections", nil, nil, data(token), "200"},
		{"POST", "connections", "Make a connection, or change its tokens (D6)", nil,
			object("connection", text(), "issue?", boolean, "rotate?", boolean, "revoke?", boolean, "reconnect?", boolean), token, "200"},
		{"GET", "orders", "List a connection's orders", []param{ofConnection}, nil, data(ref("Order")), "200"},
		{"POST", "orders", "Let an order arrive", nil, object("connection", text(), "order?", anything, "lines?", number), ref("Order"), "201"},
		{"PATCH", "orders/{id}", "Change an order, as the world does", nil, object("connection", text(), "order", anything), ref("Order"), "200"},
		{"POST", "orders/{id}/cancel", "Let the guest cancel an order", nil,
			object("connection", text(), "reason?", enum(cancelReasons...), "message?", str()), ref("Order"), "200"},
		{"DELETE", "orders/{id}", "Remove an order, as if it had never been", []param{ofConnection}, nil, nil, "204"},
		{"GET", "bookings", "List a connection's bookings", []param{ofConnection}, nil, data(ref("Booking")), "200"},
		{"PATCH", "bookings/{id}", "Change a booking, as the world does", nil, object("connection", text(), "booking", anything), ref("Booking"), "200"},
		{"GET", "clock", "Read the server's clock", nil, nil, now, "200"},
		{"POST", "clock", "Move the server's clock", nil, object("advance?", str(), "now?", instant()), now, "200"},
		{"GET", "faults", "List the faults and how often each fired", nil, nil, data(armed), "200"},
		{"POST", "faults", "Arm a fault", nil, fault, object("id", str()), "201"},
		{"DELETE", "faults", "Take all faults away, or one", []param{{"id", "The one.", str(), false}}, nil, nil, "204"},
		{"DELETE", "faults/{id}", "Take a fault away", nil, nil, nil, "204"},
		{"GET", "effects", "What requests really changed", []param{byConnection}, nil, data(object("seq", number, "connection", str(), "kind", str(),
			"resource", str(), "reference?", str(), "key", str(), "request_id", str(), "at", instant())), "200"},
		{"GET", "requests", "What was asked, byte by byte", []param{byConnection}, nil, data(object("seq", number, "connection", str(), "conn", number,
			"method", str(), "target", str(), "key", str(), "body_base64", nullable(str()), "status", number, "replayed", boolean, "request_id", str(),
			"fault", str(), "at", instant())), "200"},
		{"GET", "idempotency", "What is held of keys", []param{byConnection}, nil, data(object("connection", str(), "key", str(), "state", str(),
			"generation", number, "fingerprint", str(), "status", number, "created_at", instant(), "lease_until", instant(), "expires_at?", instant())), "200"},
		{"GET", "switches", "The readings of the contract", nil, nil, ref("Switches"), "200"},
		{"POST", "switches", "Change readings of the contract", nil, anything, ref("Switches"), "200"},
		{"POST", "snapshot", "The server's state", nil, nil, anything, "200"},
		{"POST", "restore", "Put the server back to a snapshot", nil, anything, nil, "204"},
		{"GET", "status", "Counts, clock, seed, switches", nil, nil, object("clock", now, "seed", number, "open", boolean, "base_url", str(),
			"switches", ref("Switches"), "counts", anything), "200"},
		{"GET", "openapi.json", "This document", nil, nil, anything, "200"},
	}
}

// adminPaths is the admin API's part of the OpenAPI document.
func adminPaths() schema {
	paths := schema{}
	for _, d := range adminCalls() {
		path := d.location()
		item, ok := paths[path].(schema)
		if !ok {
			item = schema{"servers": []any{schema{"url": "http://127.0.0.1:4010", "description": "the mock server alone"}}}
			if vars := pathParams(path); len(vars) > 0 {
				item["parameters"] = vars
			}
			paths[path] = item
		}
		op := schema{"operationId": "mock." + strings.ToLower(d.method) + "." + cmp.Or(d.path, "calls"), "summary": d.summary, "tags": []any{"mock"}, "security": []any{}}
		if params := queryParams(d.query); len(params) > 0 {
			op["parameters"] = params
		}
		if d.body != nil {
			op["requestBody"] = jsonBody(true, d.body)
		}
		success := schema{"description": "Done."}
		if d.answer != nil {
			success["content"] = schema{"application/json": schema{"schema": d.answer}}
		}
		op["responses"] = schema{d.status: success, "4XX": schema{"description": "Refused: the message says why.",
			"content": schema{"application/json": schema{"schema": object("error", object("message", str()))}}}}
		item[strings.ToLower(d.method)] = op
	}
	return paths
}

// switchesSchema describes the switches, by what each takes.
func switchesSchema() schema {
	defaults := DefaultSwitches()
	props := schema{}
	for _, name := range switchNames() {
		f, _ := defaults.field(name)
		s := typeSchema(f.Type())
		if allowed, ok := choices[name]; ok {
			s = enum(allowed...)
		} else if f.Type().String() == "time.Duration" {
			s = str()
		}
		props[name] = s
	}
	return schema{"type": "object", "properties": props, "required": switchNames()}
}
