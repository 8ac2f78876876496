package flavoso

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// MenuChange is one difference between two menus.
type MenuChange struct {
	Op     MenuOp
	Part   string   // "menu", "category", "item", "modifier_group" or "modifier"
	ID     string   // of the part; "" for the menu itself
	Name   string   // as it is now, or as it was when it was removed
	Fields []string // what changed, in the API's spelling, sorted; nil unless Op is MenuChanged
}

// MenuOp is what became of a part of a menu.
type MenuOp string

// The operations of a diff.
const (
	MenuAdded   MenuOp = "added"
	MenuRemoved MenuOp = "removed"
	MenuChanged MenuOp = "changed"
)

// String is one line for a log or a person, e.g. `changed item "ramen" (Ramen): price`.
func (c MenuChange) String() string {
	s := string(c.Op) + " " + c.Part
	if c.Part != partMenu {
		s += fmt.Sprintf(" %q (%s)", c.ID, c.Name)
	}
	if len(c.Fields) > 0 {
		s += ": " + strings.Join(c.Fields, ", ")
	}
	return s
}

const (
	partMenu     = "menu"
	partCategory = "category"
	partItem     = "item"
	partGroup    = "modifier_group"
	partModifier = "modifier"
)

// Diff says what changes when old is replaced by m; nil = nothing. A PUT replaces the whole menu, so look
// at what would be removed before an import goes out.
//
// Parts are matched by id. The menu itself is changed when its currency or an unknown field is, or the
// order of its categories, items or groups; a group's order of modifiers is a change of the group. A
// modifier in another group has changed its "modifier_group". First come the changes of the menu, then of
// the categories, items, groups and modifiers; in each of these what is added or changed in the order of m,
// then what is removed in the order of old. Both menus must be valid; of two parts with the same id the
// later counts.
func (m *Menu) Diff(old *Menu) []MenuChange {
	if old == nil {
		old = &Menu{}
	}
	was, is := partsOf(old), partsOf(m)
	var changes []MenuChange
	for i := range is {
		changes = append(changes, is[i].diff(was[i])...)
	}
	return changes
}

// parts are the parts of one sort, by id and in their order.
type parts struct {
	sort  string
	order []string
	byID  map[string]part
}

type part struct {
	name   string
	fields map[string]json.RawMessage
}

func (p *parts) add(id, name string, fields map[string]json.RawMessage) {
	if p.byID == nil {
		p.byID = map[string]part{}
	}
	if _, twice := p.byID[id]; !twice {
		p.order = append(p.order, id)
	}
	p.byID[id] = part{name, fields}
}

// partsOf takes a menu apart.
func partsOf(m *Menu) []parts {
	menu, categories, items := parts{sort: partMenu}, parts{sort: partCategory}, parts{sort: partItem}
	groups, modifiers := parts{sort: partGroup}, parts{sort: partModifier}
	for _, c := range m.Categories {
		categories.add(c.ID, c.Name, fieldsOf(c))
	}
	for _, it := range m.Items {
		items.add(it.ID, it.Name, fieldsOf(it))
	}
	for _, g := range m.ModifierGroups {
		ids := make([]string, len(g.Modifiers))
		for i, mod := range g.Modifiers {
			ids[i] = mod.ID
			fields := fieldsOf(mod)
			fields[partGroup] = raw(g.ID)
			modifiers.add(mod.ID, mod.Name, fields)
		}
		g.Modifiers = nil
		fields := fieldsOf(g)
		fields["modifiers"] = raw(ids)
		groups.add(g.ID, g.Name, fields)
	}
	fields := fieldsOf(Menu{Currency: m.Currency, Extra: m.Extra})
	fields["categories"], fields["items"], fields["modifier_groups"] = raw(categories.order), raw(items.order), raw(groups.order)
	menu.add("", "", fields)
	return []parts{menu, categories, items, groups, modifiers}
}

func (p *parts) diff(old parts) []MenuChange {
	var changes []MenuChange
	for _, id := range p.order {
		is, was := p.byID[id], old.byID[id]
		if was.fields == nil {
			changes = append(changes, MenuChange{Op: MenuAdded, Part: p.sort, ID: id, Name: is.name})
		} else if fields := changedFields(was.fields, is.fields); len(fields) > 0 {
			changes = append(changes, MenuChange{Op: MenuChanged, Part: p.sort, ID: id, Name: is.name, Fields: fields})
		}
	}
	for _, id := range old.order {
		if is := p.byID[id]; is.fields == nil {
			changes = append(changes, MenuChange{Op: MenuRemoved, Part: p.sort, ID: id, Name: old.byID[id].name})
		}
	}
	return changes
}

// changedFields names the fields that differ. Lists of parts differ when parts that are in both have
// another order: what came or went is a change of its own.
func changedFields(was, is map[string]json.RawMessage) []string {
	var changed []string
	for name := range union(was, is) {
		a, b := was[name], is[name]
		switch {
		case bytes.Equal(a, b):
		case slices.Contains([]string{"categories", "items", "modifier_groups", "modifiers"}, name) && sameOrder(a, b):
		default:
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

func union(a, b map[string]json.RawMessage) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

// sameOrder reports whether the ids that are in both lists come in the same order.
func sameOrder(a, b json.RawMessage) bool {
	was, is := idsIn(a), idsIn(b)
	common := func(list, other []string) []string {
		in := map[string]bool{}
		for _, id := range other {
			in[id] = true
		}
		return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return !in[id] })
	}
	return slices.Equal(common(was, is), common(is, was))
}

func idsIn(list json.RawMessage) (ids []string) {
	_ = json.Unmarshal(list, &ids) // this file encoded it
	return ids
}

// fieldsOf is an object's encoding by field.
func fieldsOf(v any) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw(v), &fields); err != nil {
		return map[string]json.RawMessage{}
	}
	for name, value := range fields {
		fields[name] = canonical(value) // an unknown object may come back with its fields in another order
	}
	return fields
}

// raw is a value's encoding. Menus hold nothing that does not encode, except an Extra that is not JSON;
// it counts as empty.
func raw(v any) json.RawMessage {
	out, err := marshal(v)
	if err != nil {
		return nil
	}
	return out
}
