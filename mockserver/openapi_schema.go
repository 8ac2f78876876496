package mockserver

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// schema is a piece of an OpenAPI document.
type schema map[string]any

func itoa(n int) string { return strconv.Itoa(n) }

func str() schema     { return schema{"type": "string"} }
func text() schema    { return schema{"type": "string", "minLength": 1} }
func instant() schema { return schema{"type": "string", "format": "date-time"} }

func enum(values ...string) schema { return schema{"type": "string", "enum": values} }

// openEnum names the values that are known; others may come.
func openEnum(values ...string) schema { return schema{"type": "string", "x-known-values": values} }

func arrayOf(items schema) schema { return schema{"type": "array", "items": items} }

func ref(component string) schema { return schema{"$ref": "#/components/schemas/" + component} }

// intRange is an integer of at least from and, unless to is 0, at most to.
func intRange(from, to int) schema {
	s := schema{"type": "integer", "format": "int64", "minimum": from}
	if to > 0 {
		s["maximum"] = to
	}
	return s
}

func nullable(s schema) schema {
	out := schema{}
	for k, v := range s {
		out[k] = v
	}
	out["type"] = []any{s["type"], "null"}
	return out
}

// object takes names and schemas in turn; a name that ends in a question mark is optional.
func object(pairs ...any) schema {
	props, required := schema{}, []string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		plain, optional := strings.CutSuffix(name, "?")
		props[plain] = pairs[i+1]
		if !optional {
			required = append(required, plain)
		}
	}
	out := schema{"type": "object", "properties": props}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// components are the schemas of what the API shows, taken from the types it is shown with.
func components() schema {
	known := map[string]schema{
		"Order.status":       openEnum(append(append([]string{}, orderProgress...), StatusRejected, StatusCancelled)...),
		"Order.type":         openEnum("delivery", "pickup", "dine_in"),
		"Order.timing":       openEnum("asap", "scheduled"),
		"Order.delivered_by": openEnum("platform", "restaurant", "none"),
		"Booking.status":     openEnum(bookingStatuses...),
		"Payment.status":     openEnum("paid", "due"),
		"Cancellation.by":    openEnum("restaurant", "customer", "system"),
	}
	schemas := schema{}
	for name, t := range map[string]reflect.Type{
		"Order": reflect.TypeFor[Order](), "Item": reflect.TypeFor[Item](), "Modifier": reflect.TypeFor[Modifier](),
		"Totals": reflect.TypeFor[Totals](), "Discount": reflect.TypeFor[Discount](), "Payment": reflect.TypeFor[Payment](),
		"Cancellation": reflect.TypeFor[Cancellation](), "Money": reflect.TypeFor[Money](), "Customer": reflect.TypeFor[Customer](),
		"Address": reflect.TypeFor[Address](), "Booking": reflect.TypeFor[Booking](), "Store": reflect.TypeFor[Store](),
		"MenuCategory": reflect.TypeFor[menuCategory](), "MenuItem": reflect.TypeFor[menuItem](),
		"ModifierGroup": reflect.TypeFor[modifierGroup](), "MenuModifier": reflect.TypeFor[menuModifier](),
		"TaxRates": reflect.TypeFor[taxRates](), "AvailabilityEntry": reflect.TypeFor[availability](),
		"Weekday": reflect.TypeFor[weekday](), "SpecialDay": reflect.TypeFor[specialDay](), "TimeRange": reflect.TypeFor[timeRange](),
		"ErrorDetail": reflect.TypeFor[detail](), "Error": reflect.TypeFor[problem](), "Hours": reflect.TypeFor[hours](),
		"MenuDocument": reflect.TypeFor[menuDoc](),
	} {
		schemas[name] = structSchema(name, t, known)
	}
	lenient(schemas["MenuDocument"].(schema), "currency", "items")
	for name, required := range map[string][]string{"MenuCategory": {"id", "name"}, "MenuItem": {"id", "name", "price"},
		"ModifierGroup": {"id", "name", "modifiers"}, "MenuModifier": {"id", "name", "price"}, "TaxRates": {}, "Weekday": {"day", "ranges"}} {
		lenient(schemas[name].(schema), required...)
	}
	schemas["Switches"] = switchesSchema()
	schemas["Menu"] = schema{"allOf": []any{ref("MenuDocument"), object("object", str(), "id", str())}}
	schemas["HoursDocument"] = object("timezone", text(), "weekly?", arrayOf(ref("Weekday")), "special_days?", arrayOf(ref("SpecialDay")))
	schemas["Availability"] = object("object", str(), "id", str(), "data", arrayOf(ref("AvailabilityEntry")))
	for name, of := range map[string]string{"OrderList": "Order", "BookingList": "Booking"} {
		schemas[name] = object("object", str(), "data", arrayOf(ref(of)), "has_more", schema{"type": "boolean"}, "next_cursor?", str())
	}
	return schema{
		"schemas":         schemas,
		"securitySchemes": schema{"token": schema{"type": "http", "scheme": "bearer", "description": "F1, F4: the token belongs to a connection."}},
		"parameters": schema{"IdempotencyKey": schema{
			"name": "Idempotency-Key", "in": "header", "description": "F2–F12: one key per operation, the same for every repeat of it.",
			"schema": schema{"type": "string", "minLength": 1, "maxLength": 255, "pattern": `^[\x20-\x7e]+$`}, "x-clauses": []string{"F2", "F3", "F4"},
		}},
		"headers": schema{
			"RequestId": schema{"description": "F1", "required": true, "schema": schema{"type": "string", "pattern": "^req_[0-9a-f]{24}$"}},
			"Replayed":  schema{"description": "F6: the answer is the first one, and nothing happened again.", "schema": enum("true")},
		},
		"responses": schema{"Refusal": schema{
			"description":   "Refused. F7: 422 idempotency_key_reused, F8: 409 idempotency_in_progress, F10: 409 conflict; the envelope and the other codes are assumed.",
			"x-assumptions": []string{"A1", "A2", "A3"},
			"headers":       schema{"X-Request-Id": schema{"$ref": "#/components/headers/RequestId"}},
			"content":       schema{"application/json": schema{"schema": object("error", ref("Error"))}},
		}},
	}
}

// lenient leaves only the named properties required.
func lenient(s schema, required ...string) {
	delete(s, "required")
	if len(required) > 0 {
		s["required"] = required
	}
}

// structSchema describes a struct by its JSON tags. What may be left out is not required.
func structSchema(name string, t reflect.Type, known map[string]schema) schema {
	props, required := schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := typeSchema(f.Type)
		if k, ok := known[name+"."+tag]; ok {
			s = k
		}
		props[tag] = s
		if options == "" {
			required = append(required, tag)
		}
	}
	return schema{"type": "object", "properties": props, "required": required}
}

func typeSchema(t reflect.Type) schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return instant()
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && t.Elem() != reflect.TypeFor[time.Time]():
		return typeSchema(t.Elem())
	case t.Kind() == reflect.Pointer:
		return nullable(typeSchema(t.Elem()))
	case t == reflect.TypeFor[[]string]():
		return schema{"type": []any{"array", "null"}, "items": str()}
	case t.Kind() == reflect.Slice:
		return arrayOf(typeSchema(t.Elem()))
	case t.Kind() == reflect.Struct:
		return ref(componentNames[t.Name()])
	case t.Kind() == reflect.Bool:
		return schema{"type": "boolean"}
	case t.Kind() == reflect.String:
		return str()
	default:
		return schema{"type": "integer", "format": "int64"}
	}
}

// componentNames are the components that types are described by.
var componentNames = map[string]string{
	"Order": "Order", "Item": "Item", "Modifier": "Modifier", "Totals": "Totals", "Discount": "Discount", "Payment": "Payment",
	"Cancellation": "Cancellation", "Money": "Money", "Customer": "Customer", "Address": "Address", "menuCategory": "MenuCategory",
	"menuItem": "MenuItem", "modifierGroup": "ModifierGroup", "menuModifier": "MenuModifier", "taxRates": "TaxRates",
	"weekday": "Weekday", "specialDay": "SpecialDay", "timeRange": "TimeRange", "detail": "ErrorDetail",
}
