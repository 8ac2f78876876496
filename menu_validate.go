package flavoso

import (
	"fmt"
	"slices"
)

// maxTaxRate is 100 % in basis points.
const maxTaxRate = 10_000

var allergens = []Allergen{
	AllergenGluten, AllergenCrustaceans, AllergenEggs, AllergenFish, AllergenPeanuts, AllergenSoybeans, AllergenMilk,
	AllergenNuts, AllergenCelery, AllergenMustard, AllergenSesame, AllergenSulphites, AllergenLupin, AllergenMolluscs,
}

// Validate finds everything that is wrong with the menu (A21): the *ValidationError has all faults, each
// with a JSON pointer, as Flavoso's own answer has. nil = nothing. [MenuService.Put] does it, too.
func (m *Menu) Validate() error {
	v := menuCheck{menu: m, items: map[string]bool{}, groups: map[string]int{}}
	v.ids()
	if len(m.Currency) != 3 {
		v.add("/currency", "format", "must be an ISO 4217 code such as \"EUR\"")
	}
	for i, c := range m.Categories {
		at := fmt.Sprintf("/categories/%d", i)
		v.name(at, c.Name)
		for j, id := range c.ItemIDs {
			if !v.items[id] {
				v.add(fmt.Sprintf("%s/item_ids/%d", at, j), "unknown", "there is no item %q", id)
			}
		}
	}
	for i := range m.Items {
		v.item(fmt.Sprintf("/items/%d", i), &m.Items[i])
	}
	for i := range m.ModifierGroups {
		v.group(fmt.Sprintf("/modifier_groups/%d", i), &m.ModifierGroups[i])
	}
	v.cycles()
	return v.err()
}

// menuCheck is one validation under way.
type menuCheck struct {
	faults
	menu   *Menu
	items  map[string]bool // by id
	groups map[string]int  // by id: the place in the list
}

// ids notes what the menu defines, and reports ids that are missing or used twice. Items, modifiers,
// groups and categories have names of their own each.
func (v *menuCheck) ids() {
	unique := func() func(at, id string) {
		seen := map[string]bool{}
		return func(at, id string) {
			switch {
			case id == "":
				v.add(at+"/id", "required", "must not be empty")
			case seen[id]:
				v.add(at+"/id", "duplicate", "the id %q is used twice", id)
			}
			v.text(at+"/id", id)
			seen[id] = true
		}
	}
	category, item, group, modifier := unique(), unique(), unique(), unique()
	for i, c := range v.menu.Categories {
		category(fmt.Sprintf("/categories/%d", i), c.ID)
	}
	for i, it := range v.menu.Items {
		item(fmt.Sprintf("/items/%d", i), it.ID)
		v.items[it.ID] = true
	}
	for i, g := range v.menu.ModifierGroups {
		group(fmt.Sprintf("/modifier_groups/%d", i), g.ID)
		v.groups[g.ID] = i
		for j, m := range g.Modifiers {
			modifier(fmt.Sprintf("/modifier_groups/%d/modifiers/%d", i, j), m.ID)
		}
	}
}

func (v *menuCheck) item(at string, it *MenuItem) {
	v.name(at, it.Name)
	v.text(at+"/external_id", it.ExternalID)
	v.price(at+"/price", it.Price)
	for _, tax := range []struct {
		field string
		rate  int
	}{{"delivery", it.TaxRates.Delivery}, {"pickup", it.TaxRates.Pickup}, {"dine_in", it.TaxRates.DineIn}} {
		if tax.rate < 0 || tax.rate > maxTaxRate {
			v.add(at+"/tax_rates/"+tax.field, "out_of_range", "must be 0 to %d basis points", maxTaxRate)
		}
	}
	for j, a := range it.Allergens {
		if !slices.Contains(allergens, a) {
			v.add(fmt.Sprintf("%s/allergens/%d", at, j), "unknown", "%q is not one of the 14 allergens", string(a))
		}
	}
	v.groupIDs(at, it.ModifierGroupIDs)
}

func (v *menuCheck) group(at string, g *ModifierGroup) {
	v.name(at, g.Name)
	if g.Min < 0 || g.Min > g.Max {
		v.add(at+"/min", "out_of_range", "must be 0 to max")
	}
	for j := range g.Modifiers {
		m, at := &g.Modifiers[j], fmt.Sprintf("%s/modifiers/%d", at, j)
		v.name(at, m.Name)
		v.text(at+"/external_id", m.ExternalID)
		v.price(at+"/price", m.Price)
		if m.MaxQuantity < 0 {
			v.add(at+"/max_quantity", "out_of_range", "must not be negative")
		}
		v.groupIDs(at, m.ModifierGroupIDs)
	}
}

func (v *menuCheck) name(at, name string) {
	if name == "" {
		v.add(at+"/name", "required", "must not be empty")
	}
	v.text(at+"/name", name)
}

func (v *menuCheck) price(at string, m Money) {
	if m.Amount < 0 {
		v.add(at+"/amount", "out_of_range", "must not be negative")
	}
	if m.Currency != v.menu.Currency {
		v.add(at+"/currency", "mismatch", "is %q, the menu is in %q", m.Currency, v.menu.Currency)
	}
}

func (v *menuCheck) groupIDs(at string, ids []string) {
	for j, id := range ids {
		if _, defined := v.groups[id]; !defined {
			v.add(fmt.Sprintf("%s/modifier_group_ids/%d", at, j), "unknown", "there is no modifier group %q", id)
		}
	}
}

// cycles reports every reference that leads from a group back into a group it is reached from: a guest
// could choose for ever.
func (v *menuCheck) cycles() {
	const open, done = 1, 2
	state := make([]int, len(v.menu.ModifierGroups))
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		for j, m := range v.menu.ModifierGroups[i].Modifiers {
			for k, id := range m.ModifierGroupIDs {
				next, defined := v.groups[id]
				switch {
				case !defined:
				case state[next] == open:
					v.add(fmt.Sprintf("/modifier_groups/%d/modifiers/%d/modifier_group_ids/%d", i, j, k), "cycle",
						"the group %q contains itself", id)
				case state[next] == 0:
					visit(next)
				}
			}
		}
		state[i] = done
	}
	for i := range state {
		if state[i] == 0 {
			visit(i)
		}
	}
}
