package flavoso

// Menu is everything a restaurant sells: flat lists that refer to each other by id. Its form is assumed
// (A21). [Menu.Validate] finds what is wrong with it, [Menu.Diff] what a change changes.
//
// The same menu encodes to the same bytes in every process; nil lists are empty ones.
type Menu struct {
	Currency       string          `json:"currency"` // ISO 4217; every price is in it
	Categories     []MenuCategory  `json:"categories"`
	Items          []MenuItem      `json:"items"`
	ModifierGroups []ModifierGroup `json:"modifier_groups"`
	Extra          Extra           `json:"-"` // fields unknown here; sent back as they came
}

// MenuCategory is a heading of the menu with its items.
type MenuCategory struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	ItemIDs []string `json:"item_ids"` // in the order shown
	Extra   Extra    `json:"-"`
}

// MenuItem is something a guest can order.
type MenuItem struct {
	ID               string     `json:"id"`
	ExternalID       string     `json:"external_id,omitzero"` // the POS's own, e.g. a PLU
	Name             string     `json:"name"`
	Price            Money      `json:"price"`
	TaxRates         TaxRates   `json:"tax_rates"`
	Allergens        []Allergen `json:"allergens"` // nil = not declared; empty = none; see DeclareAllergens
	ModifierGroupIDs []string   `json:"modifier_group_ids"`
	Extra            Extra      `json:"-"`
}

// TaxRates are an item's tax rates, by how an order reaches the guest, in basis points: 700 is 7 %.
type TaxRates struct {
	Delivery int   `json:"delivery"`
	Pickup   int   `json:"pickup"`
	DineIn   int   `json:"dine_in"`
	Extra    Extra `json:"-"`
}

// ModifierGroup is a choice that comes with an item or with another modifier, e.g. "sauces".
type ModifierGroup struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Min       int            `json:"min"` // how many a guest must choose at least
	Max       int            `json:"max"` // and at most
	Modifiers []MenuModifier `json:"modifiers"`
	Extra     Extra          `json:"-"`
}

// MenuModifier is an option of a group. It can have groups of its own.
type MenuModifier struct {
	ID               string   `json:"id"`
	ExternalID       string   `json:"external_id,omitzero"`
	Name             string   `json:"name"`
	Price            Money    `json:"price"`
	MaxQuantity      int      `json:"max_quantity"`
	ModifierGroupIDs []string `json:"modifier_group_ids,omitempty"`
	Extra            Extra    `json:"-"`
}

// Allergen is one of the 14 that EU regulation 1169/2011 names.
type Allergen string

// The allergens.
const (
	AllergenGluten      Allergen = "gluten"
	AllergenCrustaceans Allergen = "crustaceans"
	AllergenEggs        Allergen = "eggs"
	AllergenFish        Allergen = "fish"
	AllergenPeanuts     Allergen = "peanuts"
	AllergenSoybeans    Allergen = "soybeans"
	AllergenMilk        Allergen = "milk"
	AllergenNuts        Allergen = "nuts"
	AllergenCelery      Allergen = "celery"
	AllergenMustard     Allergen = "mustard"
	AllergenSesame      Allergen = "sesame"
	AllergenSulphites   Allergen = "sulphites"
	AllergenLupin       Allergen = "lupin"
	AllergenMolluscs    Allergen = "molluscs"
)

// DeclareAllergens is the value of MenuItem.Allergens that declares exactly these: none when it is called
// without any. It is never nil; nil says that nothing is declared.
func DeclareAllergens(list ...Allergen) []Allergen {
	return append([]Allergen{}, list...)
}

// UnmarshalJSON implements [json.Unmarshaler]. Unknown fields are kept in Extra; null changes nothing.
func (m *Menu) UnmarshalJSON(data []byte) error {
	type plain Menu
	return decodeExtra(data, (*plain)(m), &m.Extra, "object", "id") // Flavoso's names for the document, not part of it
}

// MarshalJSON implements [json.Marshaler].
func (m Menu) MarshalJSON() ([]byte, error) {
	type plain Menu
	m.Categories, m.Items, m.ModifierGroups = notNil(m.Categories), notNil(m.Items), notNil(m.ModifierGroups)
	return encodeExtra(plain(m), m.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (c *MenuCategory) UnmarshalJSON(data []byte) error {
	type plain MenuCategory
	return decodeExtra(data, (*plain)(c), &c.Extra)
}

// MarshalJSON implements [json.Marshaler].
func (c MenuCategory) MarshalJSON() ([]byte, error) {
	type plain MenuCategory
	c.ItemIDs = notNil(c.ItemIDs)
	return encodeExtra(plain(c), c.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (i *MenuItem) UnmarshalJSON(data []byte) error {
	type plain MenuItem
	return decodeExtra(data, (*plain)(i), &i.Extra)
}

// MarshalJSON implements [json.Marshaler]. Allergens that are not declared are null.
func (i MenuItem) MarshalJSON() ([]byte, error) {
	type plain MenuItem
	i.ModifierGroupIDs = notNil(i.ModifierGroupIDs)
	return encodeExtra(plain(i), i.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (t *TaxRates) UnmarshalJSON(data []byte) error {
	type plain TaxRates
	return decodeExtra(data, (*plain)(t), &t.Extra)
}

// MarshalJSON implements [json.Marshaler].
func (t TaxRates) MarshalJSON() ([]byte, error) {
	type plain TaxRates
	return encodeExtra(plain(t), t.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (g *ModifierGroup) UnmarshalJSON(data []byte) error {
	type plain ModifierGroup
	return decodeExtra(data, (*plain)(g), &g.Extra)
}

// MarshalJSON implements [json.Marshaler].
func (g ModifierGroup) MarshalJSON() ([]byte, error) {
	type plain ModifierGroup
	g.Modifiers = notNil(g.Modifiers)
	return encodeExtra(plain(g), g.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (m *MenuModifier) UnmarshalJSON(data []byte) error {
	type plain MenuModifier
	return decodeExtra(data, (*plain)(m), &m.Extra)
}

// MarshalJSON implements [json.Marshaler].
func (m MenuModifier) MarshalJSON() ([]byte, error) {
	type plain MenuModifier
	return encodeExtra(plain(m), m.Extra)
}

// notNil makes an absent list an empty one, so that both encode alike.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
