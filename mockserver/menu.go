package mockserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// menu is what a restaurant sells. fields is the document as it was put, so that nothing a client wrote
// is lost; the rest is what the server understands of it.
type menu struct {
	fields map[string]json.RawMessage
	doc    menuDoc
}

type menuDoc struct {
	Currency       string          `json:"currency"`
	Categories     []menuCategory  `json:"categories"`
	Items          []menuItem      `json:"items"`
	ModifierGroups []modifierGroup `json:"modifier_groups"`
}

type menuCategory struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	ItemIDs []string `json:"item_ids"`
}

type menuItem struct {
	ID               string   `json:"id"`
	ExternalID       string   `json:"external_id,omitzero"`
	Name             string   `json:"name"`
	Price            Money    `json:"price"`
	TaxRates         taxRates `json:"tax_rates"`
	Allergens        []string `json:"allergens"` // null = not declared, [] = none
	ModifierGroupIDs []string `json:"modifier_group_ids"`
}

// taxRates are in basis points.
type taxRates struct {
	Delivery int64 `json:"delivery"`
	Pickup   int64 `json:"pickup"`
	DineIn   int64 `json:"dine_in"`
}

type modifierGroup struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Min       int64          `json:"min"`
	Max       int64          `json:"max"`
	Modifiers []menuModifier `json:"modifiers"`
}

type menuModifier struct {
	ID               string   `json:"id"`
	ExternalID       string   `json:"external_id,omitzero"`
	Name             string   `json:"name"`
	Price            Money    `json:"price"`
	MaxQuantity      int64    `json:"max_quantity"`
	ModifierGroupIDs []string `json:"modifier_group_ids,omitzero"` // options of the option
}

// allergens are the 14 that EU regulation 1169/2011 names.
var allergens = []string{
	"gluten", "crustaceans", "eggs", "fish", "peanuts", "soybeans", "milk", "nuts", "celery", "mustard",
	"sesame", "sulphites", "lupin", "molluscs",
}

// menuRoutes are the operations on the menu. PUT /menu and POST /menu/availability are documented (F15);
// shapes and reading back are assumptions.
func menuRoutes() []route {
	return []route{
		{method: "GET", pattern: "/menu", operation: "menu.get", run: func(c *call) answer { return ok(c.conn.menu.fields) }},
		{method: "PUT", pattern: "/menu", operation: "menu.put", run: putMenu},
		{method: "GET", pattern: "/menu/availability", operation: "menu.get_availability", run: getAvailability},
		{method: "POST", pattern: "/menu/availability", operation: "menu.availability", run: postAvailability},
	}
}

func putMenu(c *call) answer {
	var next menu
	if len(c.body) == 0 {
		return refuse(&problem{Code: codeInvalidRequest, Message: "the menu is missing"})
	}
	if p := c.decode(&next.doc); p != nil {
		return refuse(p)
	}
	if p := c.decode(&next.fields); p != nil {
		return refuse(p)
	}
	if p := next.doc.check(); p != nil {
		return refuse(p)
	}
	next.name()
	if !sameJSON(next.fields, c.conn.menu.fields) {
		c.conn.menu = next
		c.conn.availability.keep(next.doc)
		c.effect("menu.put", "menu", "")
	}
	return ok(c.conn.menu.fields)
}

// name marks the document as the menu.
func (m *menu) name() {
	m.fields["object"], m.fields["id"] = json.RawMessage(`"menu"`), json.RawMessage(`"menu"`)
}

func sameJSON(a, b any) bool {
	var va, vb any
	return json.Unmarshal(encode(a), &va) == nil && json.Unmarshal(encode(b), &vb) == nil && reflect.DeepEqual(va, vb)
}

// menuIDs finds what a menu defines, and reports what is defined twice.
type menuIDs struct {
	items, modifiers, groups map[string]bool
}

func (d *menuDoc) check() *problem {
	var f findings
	if len(d.Currency) != 3 {
		f.add("/currency", "format", "currency must be an ISO 4217 code")
	}
	ids := d.define(&f)
	for i, cat := range d.Categories {
		checkName(&f, fmt.Sprintf("/categories/%d", i), cat.Name)
		checkRefs(&f, fmt.Sprintf("/categories/%d/item_ids", i), "item", cat.ItemIDs, ids.items)
	}
	for i, it := range d.Items {
		at := fmt.Sprintf("/items/%d", i)
		checkName(&f, at, it.Name)
		checkPrice(&f, at+"/price", it.Price, d.Currency)
		for _, t := range []struct {
			name string
			rate int64
		}{{"delivery", it.TaxRates.Delivery}, {"pickup", it.TaxRates.Pickup}, {"dine_in", it.TaxRates.DineIn}} {
			if t.rate < 0 || t.rate > 10_000 {
				f.add(at+"/tax_rates/"+t.name, "out_of_range", "a tax rate must be 0 to 10000 basis points")
			}
		}
		for j, a := range it.Allergens {
			if !slices.Contains(allergens, a) {
				f.add(fmt.Sprintf("%s/allergens/%d", at, j), "unknown", fmt.Sprintf("%q is not one of the 14 allergens", a))
			}
		}
		checkRefs(&f, at+"/modifier_group_ids", "modifier group", it.ModifierGroupIDs, ids.groups)
	}
	for i, g := range d.ModifierGroups {
		at := fmt.Sprintf("/modifier_groups/%d", i)
		checkName(&f, at, g.Name)
		if g.Min < 0 || g.Max < g.Min {
			f.add(at+"/min", "out_of_range", "min must be 0 to max")
		}
		for j, m := range g.Modifiers {
			at := fmt.Sprintf("%s/modifiers/%d", at, j)
			checkName(&f, at, m.Name)
			checkPrice(&f, at+"/price", m.Price, d.Currency)
			if m.MaxQuantity < 0 {
				f.add(at+"/max_quantity", "out_of_range", "max_quantity must not be negative")
			}
			checkRefs(&f, at+"/modifier_group_ids", "modifier group", m.ModifierGroupIDs, ids.groups)
		}
	}
	d.checkCycles(&f)
	return f.problem()
}

func (d *menuDoc) define(f *findings) menuIDs {
	ids := menuIDs{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	define := func(at, id string, seen map[string]bool) {
		switch {
		case id == "":
			f.add(at+"/id", "required", "id is required")
		case seen[id]:
			f.add(at+"/id", "duplicate", fmt.Sprintf("the id %q is used twice", id))
		}
		seen[id] = true
	}
	categories := map[string]bool{}
	for i, c := range d.Categories {
		define(fmt.Sprintf("/categories/%d", i), c.ID, categories)
	}
	for i, it := range d.Items {
		define(fmt.Sprintf("/items/%d", i), it.ID, ids.items)
	}
	for i, g := range d.ModifierGroups {
		define(fmt.Sprintf("/modifier_groups/%d", i), g.ID, ids.groups)
		for j, m := range g.Modifiers {
			define(fmt.Sprintf("/modifier_groups/%d/modifiers/%d", i, j), m.ID, ids.modifiers)
		}
	}
	return ids
}

func checkName(f *findings, at, name string) {
	if name == "" {
		f.add(at+"/name", "required", "name is required")
	}
}

func checkPrice(f *findings, at string, m Money, currency string) {
	if m.Amount < 0 {
		f.add(at+"/amount", "out_of_range", "a price must not be negative")
	}
	if m.Currency != currency {
		f.add(at+"/currency", "mismatch", fmt.Sprintf("the price is in %q, the menu in %q", m.Currency, currency))
	}
}

func checkRefs(f *findings, at, what string, refs []string, defined map[string]bool) {
	for i, id := range refs {
		if !defined[id] {
			f.add(fmt.Sprintf("%s/%d", at, i), "unknown", fmt.Sprintf("there is no %s %q", what, id))
		}
	}
}

// checkCycles reports modifier groups that contain themselves by way of their modifiers.
func (d *menuDoc) checkCycles(f *findings) {
	index := map[string]int{}
	for i, g := range d.ModifierGroups {
		index[g.ID] = i
	}
	const visiting, visited = 1, 2
	state := make([]int, len(d.ModifierGroups))
	var visit func(i int)
	visit = func(i int) {
		state[i] = visiting
		for j, m := range d.ModifierGroups[i].Modifiers {
			for k, id := range m.ModifierGroupIDs {
				next, known := index[id]
				if !known {
					continue
				}
				if state[next] == visiting {
					f.add(fmt.Sprintf("/modifier_groups/%d/modifiers/%d/modifier_group_ids/%d", i, j, k), "cycle",
						fmt.Sprintf("the group %q contains itself", id))
				} else if state[next] == 0 {
					visit(next)
				}
			}
		}
		state[i] = visited
	}
	for i := range d.ModifierGroups {
		if state[i] == 0 {
			visit(i)
		}
	}
}

// seedMenu is the menu a restaurant starts with: the catalog that its orders are made from.
func seedMenu(currency string) menu {
	d := menuDoc{Currency: currency}
	food := menuCategory{ID: "speisen", Name: "Speisen & Getränke", ItemIDs: []string{}}
	var groups func(id string, options []option) []string
	groups = func(id string, options []option) []string {
		if len(options) == 0 {
			return []string{}
		}
		g := modifierGroup{ID: "optionen-" + id, Name: "Optionen", Max: int64(2 * len(options)), Modifiers: []menuModifier{}}
		for _, op := range options {
			g.Modifiers = append(g.Modifiers, menuModifier{
				ID: op.id, ExternalID: "plu-" + op.id, Name: op.name, Price: Money{op.price, currency}, MaxQuantity: 2,
				ModifierGroupIDs: groups(op.id, op.options),
			})
		}
		d.ModifierGroups = append(d.ModifierGroups, g)
		return []string{g.ID}
	}
	for _, dish := range catalog {
		d.Items = append(d.Items, menuItem{
			ID: dish.id, ExternalID: "plu-" + dish.id, Name: dish.name, Price: Money{dish.price, currency},
			TaxRates: taxRates{700, 700, 1900}, Allergens: dish.allergens, ModifierGroupIDs: groups(dish.id, dish.options),
		})
		food.ItemIDs = append(food.ItemIDs, dish.id)
	}
	d.Categories = []menuCategory{food}
	m := menu{doc: d}
	if err := json.Unmarshal(encode(d), &m.fields); err != nil {
		m.fields = map[string]json.RawMessage{} // not reachable: it was just encoded
	}
	m.name()
	return m
}
