package flavoso

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// What a PUT or a PATCH asks for is its own body, and what became of it can be read where it was written
// to. Such a write is simply repeated (F15); it is read back only when Flavoso refuses a repeat whose first
// attempt may have been done, and after a repeat, so that the present is returned.

func readTarget(rec *outbox.Record) string { return rec.Request.Target }

// judgeTarget compares the resource with the body that was to change it.
func judgeTarget(rec *outbox.Record, body []byte) dispatch.Finding {
	want, okWant := decodeAny(rec.Request.Body)
	got, okGot := decodeAny(body)
	if _, object := got.(map[string]any); !okWant || !okGot || !object {
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	f := dispatch.Finding{Wish: dispatch.Open, Body: body, Resource: rec.Resource}
	if holds(want, got) {
		f.Wish = dispatch.Fulfilled
	}
	return f
}

// judgeStore is judgeTarget for the store, which does not show a pause that is over (A26): once it is, only the rest
// of what was asked for tells.
func judgeStore(rec *outbox.Record, body []byte) dispatch.Finding {
	f := judgeTarget(rec, body)
	if f.Wish != dispatch.Open {
		return f
	}
	want, _ := decodeAny(rec.Request.Body)
	wish, _ := want.(map[string]any)
	text, _ := wish["paused_until"].(string)
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return f
	}
	delete(wish, "paused_until")
	delete(wish, "pause_reason")
	if got, _ := decodeAny(body); holds(wish, got) {
		f.Until = until
	}
	return f
}

// decodeAny decodes with numbers as they are written.
func decodeAny(data []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return v, json.Valid(data) && d.Decode(&v) == nil // valid: nothing comes after the value
}

// holds reports whether got says everything that want says. It may say more, and write a moment in
// another way; what want clears may be absent.
func holds(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for name, v := range w {
			there, ok := g[name]
			if list, isList := v.([]any); !ok && (v == nil || isList && len(list) == 0) {
				continue
			}
			if !ok || !holds(v, there) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !holds(w[i], g[i]) {
				return false
			}
		}
		return true
	case nil:
		return got == nil || got == ""
	case string:
		g, ok := got.(string)
		return ok && (g == w || sameMoment(g, w))
	}
	return want == got
}

func sameMoment(a, b string) bool {
	at, errA := time.Parse(time.RFC3339, a)
	bt, errB := time.Parse(time.RFC3339, b)
	return errA == nil && errB == nil && at.Equal(bt)
}
