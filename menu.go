package flavoso

import "context"

// MenuService are the calls about the menu and what of it can be had; reach it as Client.Menu.
type MenuService struct {
	client *Client
}

// menuLane keeps menus and availability in the order they were decided: what is sold out after a new menu
// stays sold out.
const menuLane = "menu"

// Get returns the menu as Flavoso has it (A22). It retries as Orders.Get does.
func (s *MenuService) Get(ctx context.Context, opts ...ReadOption) (*Menu, error) {
	return Get[Menu](ctx, s.client, Path("menu"), nil, opts...)
}

// Put replaces the whole menu: what m does not have is gone afterwards. A menu that [Menu.Validate] finds
// faults in is neither saved nor sent; the error is a *ValidationError. What Flavoso itself finds is an
// *APIError with its Faults.
//
// Availability survives where the id is still there (A25). With [Call.WithSupersede] a menu that was never
// tried is replaced in the outbox, so that after a day offline only the last one goes out.
//
// No key (F2), lane menu, repeat-safe (F15).
func (s *MenuService) Put(m *Menu) *Call[Menu] {
	d := draft{kind: kindMenuPut, method: "PUT", target: Path("menu"), lane: menuLane, resource: "menu", repeatSafe: true}
	if m == nil {
		d.err = &ParamError{Field: "menu", Rule: "must be given"}
	} else if d.err = m.Validate(); d.err == nil {
		d.body = m
	}
	return newCall[Menu](s.client, d)
}

// Availability returns what is not simply available (A23). It retries as Orders.Get does.
func (s *MenuService) Availability(ctx context.Context, opts ...ReadOption) (*Availability, error) {
	return Get[Availability](ctx, s.client, Path("menu", "availability"), nil, opts...)
}

// SetAvailability says what is sold out, limited or there again; all of it or nothing (A23). It answers
// with everything that is not simply available then.
//
// Until is evaluated on Flavoso's clock (A24). A change that waits in the outbox beyond its Until is
// refused when it is sent; give such calls a [Call.WithExpiry] that ends with it.
//
// Key NewKey(): the same change may be made again and again, so every call is an operation of its own.
// Lane menu, repeat-safe (F15).
func (s *MenuService) SetAvailability(p AvailabilityParams) *Call[Availability] {
	return newCall[Availability](s.client, draft{kind: kindMenuAvailability, method: "POST",
		target: Path("menu", "availability"), body: p, key: NewKey(), lane: menuLane, resource: "menu",
		repeatSafe: true, err: p.validate()})
}
