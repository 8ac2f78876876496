package flavoso

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// watchCursor is what a watch has seen. It is kept in the outbox in two values, so that the one saved after
// every order stays small however much was seen:
//
//	watch:<name>         everything, saved once per poll that changed it
//	watch-taken:<name>   what was taken since
type watchCursor struct {
	// From is where polls begin: orders that changed later. It only grows.
	From time.Time
	// Taken are the orders with changes after From that were handled, by id.
	Taken map[string]orderKey

	recent  []orderKey // taken since the last save of the whole
	changed bool       // the whole is to be saved
}

// orderKey says which state of an order was seen.
type orderKey struct {
	ID        string    `json:"id"`
	Version   int64     `json:"version,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// savedCursor is the saved form.
type savedCursor struct {
	Format int        `json:"format"` // 1
	From   time.Time  `json:"from,omitzero"`
	Taken  []orderKey `json:"taken,omitempty"`
	Owed   []orderKey `json:"owed,omitempty"` // orders that were not taken
}

const cursorFormat = 1

// took reports whether this state of the order, or a later one, was handled. Where Flavoso gives no
// version, the time of the change counts.
func (c *watchCursor) took(k orderKey) bool {
	seen, ok := c.Taken[k.ID]
	if k.Version == 0 && seen.Version == 0 {
		return ok && !k.UpdatedAt.After(seen.UpdatedAt)
	}
	return ok && k.Version <= seen.Version
}

// take notes that this state of the order was handled.
func (c *watchCursor) take(k orderKey) {
	c.Taken[k.ID] = k
	c.recent = append(c.recent, k)
	c.changed = true
}

// moveTo forgets what polls do not return any more.
func (c *watchCursor) moveTo(from time.Time) {
	c.From = from
	maps.DeleteFunc(c.Taken, func(_ string, k orderKey) bool { return k.UpdatedAt.Before(from) })
	c.changed = true
}

func (w *watch) names() (whole, taken string) {
	return "watch:" + w.params.Name, "watch-taken:" + w.params.Name
}

// load reads the cursor, or begins one.
func (w *watch) load(ctx context.Context) error {
	w.cursor = watchCursor{From: w.params.Since, Taken: map[string]orderKey{}}
	w.owed = map[string]*owedOrder{}
	whole, taken := w.names()
	for _, name := range []string{whole, taken} {
		var saved savedCursor
		data, err := w.client.engine.LoadState(ctx, w.client.cfg.Connection, name)
		if err == nil && data != nil {
			if err = json.Unmarshal(data, &saved); err == nil && saved.Format != cursorFormat {
				err = fmt.Errorf("it has format %d; a newer version may have saved it", saved.Format)
			}
		}
		if err != nil {
			return fmt.Errorf("flavoso: the cursor of watch %q cannot be read: %w", w.params.Name, err)
		}
		if data == nil {
			continue
		}
		if name == whole {
			w.cursor.From = saved.From
		}
		for _, k := range saved.Taken {
			w.cursor.Taken[k.ID] = k
		}
		for _, k := range saved.Owed {
			w.owed[k.ID] = &owedOrder{key: k}
		}
		if name == taken {
			w.cursor.changed = true
		}
	}
	return nil
}

// recentMost is how many orders are saved one by one before the whole is.
const recentMost = 100

// saveTaken saves what was taken last.
func (w *watch) saveTaken(ctx context.Context) {
	if len(w.cursor.recent) >= recentMost {
		w.save(ctx)
		return
	}
	_, taken := w.names()
	w.saveState(ctx, taken, &savedCursor{Format: cursorFormat, Taken: w.cursor.recent})
}

// save saves the whole cursor.
func (w *watch) save(ctx context.Context) {
	whole, taken := w.names()
	saved := &savedCursor{Format: cursorFormat, From: w.cursor.From, Taken: slices.Collect(maps.Values(w.cursor.Taken))}
	for _, o := range w.owed {
		saved.Owed = append(saved.Owed, o.key)
	}
	if w.saveState(ctx, whole, saved) && w.saveState(ctx, taken, nil) {
		w.cursor.recent, w.cursor.changed = nil, false
	}
}

// saveState saves one value. A failure loses nothing in this process; the next save has everything.
func (w *watch) saveState(ctx context.Context, name string, saved *savedCursor) bool {
	var data []byte
	if saved != nil {
		var err error
		if data, err = marshal(saved); err != nil {
			w.client.cfg.Logger.Error("flavoso.watch_not_saved", "watch", w.params.Name, "error", err)
			return false
		}
	}
	// What handle took is saved even when the watch has been told to end.
	err := w.client.engine.SaveState(context.WithoutCancel(ctx), w.client.cfg.Connection, name, data)
	if err != nil {
		w.client.cfg.Logger.Error("flavoso.watch_not_saved", "watch", w.params.Name, "error", err)
	}
	return err == nil
}
