package flavoso

import "context"

// StoreService are the calls about the restaurant itself; reach it as Client.Store.
type StoreService struct {
	client *Client
}

const storeLane = "store"

// Get returns the restaurant as it is now (A26). It retries as Orders.Get does.
func (s *StoreService) Get(ctx context.Context, opts ...ReadOption) (*Store, error) {
	return Get[Store](ctx, s.client, Path("store"), nil, opts...)
}

// Update pauses or resumes the restaurant, or changes its usual preparation time (A26). Setting PausedUntil
// to null resumes.
//
// A pause that waits in the outbox until it is over is refused when it is sent; give it a
// [Call.WithExpiry] that ends with it.
//
// No key (F2), lane store, repeat-safe (F15).
func (s *StoreService) Update(p UpdateStoreParams) *Call[Store] {
	return newCall[Store](s.client, draft{kind: kindStoreUpdate, method: "PATCH", target: Path("store"), body: p,
		lane: storeLane, resource: "store", repeatSafe: true, err: p.validate()})
}

// Hours returns the opening hours as Flavoso has them (A27). It retries as Orders.Get does.
func (s *StoreService) Hours(ctx context.Context, opts ...ReadOption) (*Hours, error) {
	return Get[Hours](ctx, s.client, Path("store", "hours"), nil, opts...)
}

// PutHours replaces all opening hours, special days included. Hours that [Hours.Validate] finds faults in
// are neither saved nor sent; the error is a *ValidationError. [Call.WithSupersede] works as for Menu.Put.
//
// No key (F2), lane store, repeat-safe (F15).
func (s *StoreService) PutHours(h *Hours) *Call[Hours] {
	d := draft{kind: kindStoreHours, method: "PUT", target: Path("store", "hours"), lane: storeLane, resource: "store", repeatSafe: true}
	if h == nil {
		d.err = &ParamError{Field: "hours", Rule: "must be given"}
	} else if d.err = h.Validate(); d.err == nil {
		d.body = h
	}
	return newCall[Hours](s.client, d)
}
