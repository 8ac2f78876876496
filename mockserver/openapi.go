package mockserver

import (
	"net/http"
	"strings"
)

// operationDoc is what the OpenAPI document says about an operation beside its path.
type operationDoc struct {
	summary     string
	documented  string   // the clauses Flavoso documents it by; "" = all of it is assumed
	assumptions []string // the numbers in docs/assumptions.md
	query       []param
	body        schema // nil = no body
	bodyNeeded  bool
	answer      string // name of a component
	created     bool
	refusals    []int // besides 401, 429 and those that every write has
}

type param struct {
	name, description string
	schema            schema
	repeated          bool
}

var listParams = []param{
	{"limit", "Entries per page.", schema{"type": "integer", "minimum": 1, "maximum": maxPage, "default": defaultPage}, false},
	{"cursor", "The next_cursor of the page before, with the same filters.", str(), false},
}

// operationDocs has one entry per route, by operation.
func operationDocs() map[string]operationDoc {
	ending := object("reason", enum(cancelReasons...), "message?", str(), "unavailable_items?", arrayOf(str()))
	docs := map[string]operationDoc{
		"orders.list": {summary: "List orders in the order of arrival", assumptions: []string{"A4", "A5"}, answer: "OrderList", refusals: []int{400},
			query: append([]param{
				{"status", "Only orders with one of these statuses.", str(), true},
				{"updated_after", "Only orders changed after this instant.", instant(), false},
			}, listParams...)},
		"orders.get": {summary: "Get an order", documented: "F17", assumptions: []string{"A6"}, answer: "Order", refusals: []int{404}},
		"orders.update": {summary: "Change the estimated ready time; null clears it", documented: "F15", assumptions: []string{"A14"},
			body: object("estimated_ready_at?", nullable(instant())), answer: "Order", refusals: []int{404, 409}},
		"orders.accept": {summary: "Accept an order: the kitchen makes it", documented: "F11 F12 F13 F17", assumptions: []string{"A7", "A14"},
			body: object("preparation_minutes?", intRange(1, 10080), "ready_at?", instant()), answer: "Order", refusals: []int{404}},
		"orders.acknowledge": {summary: "Take an order over into the POS under its number there", documented: "F12 F14", assumptions: []string{"A8"},
			body: object("external_id", text()), bodyNeeded: true, answer: "Order", refusals: []int{404, 409}},
		"orders.reject": {summary: "Reject a pending order", assumptions: []string{"A9", "A10", "A11"}, body: ending, bodyNeeded: true, answer: "Order", refusals: []int{404, 409}},
		"orders.cancel": {summary: "Cancel an order that has not ended", assumptions: []string{"A10", "A12"}, body: ending, bodyNeeded: true, answer: "Order", refusals: []int{404, 409}},
		"orders.status": {summary: "Move an order forward", documented: "F13", assumptions: []string{"A6"},
			body: object("status", enum(orderProgress[1:]...)), bodyNeeded: true, answer: "Order", refusals: []int{404, 409}},

		"bookings.list": {summary: "List bookings in the order of arrival", assumptions: []string{"A4", "A19", "A20"}, answer: "BookingList", refusals: []int{400},
			query: append([]param{
				{"external_id", "Only bookings with this reference.", str(), false},
				{"status", "Only bookings with this status.", str(), false},
			}, listParams...)},
		"bookings.create": {summary: "Create a booking; without a key a repeat makes a second one", documented: "F12 F17", assumptions: []string{"A15", "A16", "A17", "A18", "A33"},
			body: object("external_id?", str(), "party_size", intRange(1, maxPartySize), "starts_at", instant(), "duration_minutes?", intRange(15, 1440),
				"customer", ref("Customer"), "note?", str()),
			bodyNeeded: true, answer: "Booking", created: true, refusals: []int{409}},
		"bookings.get": {summary: "Get a booking", assumptions: []string{"A15"}, answer: "Booking", refusals: []int{404}},
		"bookings.update": {summary: "Change a booking; absent leaves, null clears", documented: "F15", assumptions: []string{"A15", "A17"},
			body: object("party_size?", intRange(1, maxPartySize), "starts_at?", instant(), "duration_minutes?", intRange(15, 1440),
				"customer?", ref("Customer"), "note?", nullable(str())),
			answer: "Booking", refusals: []int{404, 409}},

		"menu.get":              {summary: "Get the menu", assumptions: []string{"A21", "A22"}, answer: "Menu"},
		"menu.put":              {summary: "Replace the menu", documented: "F15", assumptions: []string{"A21", "A22"}, body: ref("MenuDocument"), bodyNeeded: true, answer: "Menu"},
		"menu.get_availability": {summary: "List what is not simply available", assumptions: []string{"A23"}, answer: "Availability"},
		"menu.availability": {summary: "Set what can be sold; all or nothing", documented: "F15", assumptions: []string{"A23", "A24", "A25"},
			body: object("changes", schema{"type": "array", "minItems": 1, "items": object("item_id?", text(), "modifier_id?", text(), "external_id?", text(),
				"status", enum("available", "unavailable", "limited"), "until?", instant(), "quantity?", intRange(1, 0), "reason?", str())}),
			bodyNeeded: true, answer: "Availability"},

		"store.get": {summary: "Get the restaurant", assumptions: []string{"A26"}, answer: "Store"},
		"store.update": {summary: "Pause, resume, or change the preparation time", documented: "F15", assumptions: []string{"A26"}, answer: "Store",
			body: object("paused_until?", nullable(instant()), "pause_reason?", nullable(str()), "default_preparation_minutes?", intRange(1, 1440))},
		"store.get_hours": {summary: "Get the opening hours", assumptions: []string{"A27"}, answer: "Hours"},
		"store.hours":     {summary: "Replace the opening hours", documented: "F15", assumptions: []string{"A27"}, body: ref("HoursDocument"), bodyNeeded: true, answer: "Hours"},
	}
	for verb, summary := range map[string]string{"cancel": "Cancel a booking", "seat": "Seat a party", "complete": "Complete a seated booking", "no_show": "Note that nobody came"} {
		docs["bookings."+verb] = operationDoc{summary: summary, documented: "F13", assumptions: []string{"A19"}, answer: "Booking", refusals: []int{404, 409}}
	}
	return docs
}

// openAPI is the OpenAPI 3.1 document of everything the server serves.
func openAPI() schema {
	docs := operationDocs()
	paths := schema{}
	for _, r := range newRouteTable().routes {
		item, ok := paths[r.pattern].(schema)
		if !ok {
			item = schema{}
			paths[r.pattern] = item
			if vars := pathParams(r.pattern); len(vars) > 0 {
				item["parameters"] = vars
			}
		}
		item[strings.ToLower(r.method)] = r.describe(docs[r.operation])
	}
	for path, item := range adminPaths() {
		paths[path] = item
	}
	return schema{
		"openapi": "3.1.0",
		"info": schema{
			"title": "Flavoso restaurant API, as the mock server serves it", "version": "1",
			"description": "x-clauses name what Flavoso documents (contract clauses F1–F17). x-assumptions name entries of " +
				"docs/assumptions.md: what is assumed until Flavoso says otherwise.",
		},
		"servers":    []any{schema{"url": "https://api.flavoso.com/v1", "description": "F1"}},
		"security":   []any{schema{"token": []any{}}},
		"paths":      paths,
		"components": components(),
	}
}

func pathParams(pattern string) []any {
	var out []any
	for _, s := range strings.Split(pattern, "/") {
		if strings.HasPrefix(s, "{") {
			out = append(out, schema{"name": strings.Trim(s, "{}"), "in": "path", "required": true, "schema": text()})
		}
	}
	return out
}

func (r *route) describe(d operationDoc) schema {
	op := schema{"operationId": r.operation, "summary": d.summary, "tags": []any{strings.Split(r.operation, ".")[0]}}
	if d.documented != "" {
		op["x-clauses"] = strings.Fields(d.documented)
	}
	if len(d.assumptions) > 0 {
		op["x-assumptions"] = d.assumptions
	}
	var params []any
	if r.method == http.MethodPost {
		params = append(params, schema{"$ref": "#/components/parameters/IdempotencyKey"})
	}
	params = append(params, queryParams(d.query)...)
	if len(params) > 0 {
		op["parameters"] = params
	}
	if d.body != nil {
		op["requestBody"] = jsonBody(d.bodyNeeded, d.body)
	}
	op["responses"] = r.responses(d)
	return op
}

func queryParams(query []param) []any {
	var out []any
	for _, p := range query {
		q := schema{"name": p.name, "in": "query", "description": p.description, "schema": p.schema}
		if p.repeated {
			q["schema"], q["explode"] = arrayOf(p.schema), true
		}
		out = append(out, q)
	}
	return out
}

func jsonBody(required bool, s schema) schema {
	return schema{"required": required, "content": schema{"application/json": schema{"schema": s}}}
}

func (r *route) responses(d operationDoc) schema {
	success := schema{"description": "Done.", "headers": schema{"X-Request-Id": schema{"$ref": "#/components/headers/RequestId"}},
		"content": schema{"application/json": schema{"schema": ref(d.answer)}}}
	status := "200"
	if d.created {
		status = "201"
		success["headers"].(schema)["Location"] = schema{"schema": str()}
	}
	if r.method == http.MethodPost {
		success["headers"].(schema)["Idempotent-Replayed"] = schema{"$ref": "#/components/headers/Replayed"}
	}
	out := schema{status: success}
	refusals := append([]int{401, 403, 429, 500, 502, 503}, d.refusals...)
	if r.write() {
		refusals = append(refusals, 400, 413, 415, 422)
	}
	if r.method == http.MethodPost {
		refusals = append(refusals, 409)
	}
	for _, code := range refusals {
		out[itoa(code)] = schema{"$ref": "#/components/responses/Refusal"}
	}
	return out
}
