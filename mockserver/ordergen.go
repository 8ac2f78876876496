package mockserver

import (
	"fmt"
	"time"
)

// A dish of the house menu. The same catalog feeds the menu a restaurant starts with and its orders, so
// that every line of an order points at something that exists.
type dish struct {
	id, name  string
	price     int64
	allergens []string
	options   []option
}

type option struct {
	id, name string
	price    int64
	options  []option
}

var catalog = []dish{
	{"margherita", "Pizza Margherita", 1090, []string{"gluten", "milk"}, []option{
		{"extra-kaese", "extra Käse", 150, nil}, {"scharf", "scharf (Chiliöl)", 0, nil}}},
	{"kaesespaetzle", "Käsespätzle mit Röstzwiebeln", 1390, []string{"gluten", "eggs", "milk"}, []option{
		{"gross", "große Portion", 300, []option{{"salat", "Beilagensalat", 390, []option{
			{"haselnuss", "mit gerösteten Haselnüssen", 90, nil}}}}}}},
	{"schnitzel", "Schnitzel Wiener Art vom Landschwein mit Pommes frites, Preiselbeeren, Zitrone und hausgemachtem Gurkensalat nach Großmutters Rezept",
		1790, []string{"gluten", "eggs", "milk", "mustard"}, []option{{"sosse", "Pfeffersoße", 250, nil}}},
	{"burger", "Smørrebrød-Burger »Århus«", 1490, []string{"gluten", "fish", "sesame"}, []option{
		{"menue", "als Menü", 490, []option{{"pommes", "Süßkartoffel-Pommes", 100, []option{{"mayo", "Trüffel-Mayo", 120, nil}}},
			{"limo", "Holunder-Limonade 0,33 l", 0, nil}}}, {"patty", "zusätzliches Patty", 350, nil}}},
	{"ramen", "豚骨ラーメン Tonkotsu Ramen", 1550, []string{"gluten", "eggs", "soybeans"}, []option{
		{"ei", "Onsen-Ei", 180, nil}, {"nori", "Nori 🌿", 120, nil}}},
	{"falafel", "Falafel-Teller فلافل", 1150, []string{"sesame"}, nil},
	{"tiramisu", "Tiramisù", 650, []string{"gluten", "eggs", "milk"}, nil},
	{"wasser", "Mineralwasser 0,5 l", 320, nil, nil},
	{"espresso", "Espresso", 240, nil, nil},
}

var guests = []Customer{
	{Name: "Jörg Müller-Lüdenscheidt", Phone: "+49 151 23456789", Email: "joerg.mueller@example.com"},
	{Name: "Zoë Øvergård", Phone: "+47 412 34 567", Email: "zoe@example.com"},
	{Name: "Anna-Sophia Freifrau von und zu Hohenstein-Weißenburg", Phone: "+49 30 9018200"},
	{Name: "李小龍", Phone: "+852 5123 4567"},
	{Name: "Şeyma Çağlar", Phone: "+49 170 1112223", Note: "Bitte nicht klingeln, Baby schläft"},
}

var addresses = []Address{
	{Street: "Straße der Einheit 12a", PostalCode: "10969", City: "Berlin", Country: "DE", Note: "Hinterhaus, 3. OG links"},
	{Street: "Große Bäckerstraße 3", PostalCode: "20095", City: "Hamburg", Country: "DE"},
	{Street: "Türkenstraße 88", PostalCode: "80799", City: "München", Country: "DE", Note: "Klingel: »WG Süd«"},
}

// realisticOrder makes an order as one arrives: two to five lines, nested options, umlauts, sums that
// add up. What it is like depends on r alone.
func realisticOrder(r *random, now time.Time, currency string) Order {
	o := Order{
		Object: "order", ID: r.uuid(), Status: StatusPending, Channel: "flavoso",
		DisplayNumber: fmt.Sprintf("%c%02d", 'A'+r.intn(26), r.intn(100)),
		Type:          "delivery", DeliveredBy: "platform", Timing: "asap",
		PlacedAt: now, UpdatedAt: now, Version: 1,
		Customer: guests[r.intn(len(guests))],
		Payment:  Payment{Status: "paid", Method: "card"},
	}
	for range 2 + r.intn(4) {
		o.Items = append(o.Items, randomItem(r))
	}
	switch r.intn(4) {
	case 0:
		o.Type, o.DeliveredBy = "pickup", "none"
	case 1:
		o.DeliveredBy, o.Payment = "restaurant", Payment{Status: "due", Method: "cash"}
	}
	if o.Type == "delivery" {
		a := addresses[r.intn(len(addresses))]
		o.DeliveryAddress = &a
		o.Totals.DeliveryFee.Amount = 290
	}
	if r.intn(3) == 0 {
		o.Discounts = []Discount{{Name: "Willkommen zurück", Amount: Money{Amount: 200}, FundedBy: "platform"}}
	}
	if r.intn(3) == 0 {
		o.Totals.Tip.Amount = 150
	}
	if r.intn(4) == 0 {
		o.AllergenNote = "Erdnussallergie! Bitte kein Erdnussöl verwenden."
	}
	o.Totals.ServiceFee.Amount = 79
	o.addUp(currency)
	return o
}

func randomItem(r *random) Item {
	d := catalog[r.intn(len(catalog))]
	it := Item{
		ID: r.uuid(), ItemID: d.id, ExternalID: "plu-" + d.id, Name: d.name, Quantity: int64(1 + r.intn(3)),
		UnitPrice: Money{Amount: d.price}, TaxRateBP: 700, Modifiers: randomModifiers(r, d.options),
	}
	if r.intn(5) == 0 {
		it.Note = "ohne Zwiebeln, bitte"
	}
	return it
}

func randomModifiers(r *random, from []option) []Modifier {
	ms := []Modifier{}
	for _, op := range from {
		if r.intn(2) == 0 {
			continue
		}
		ms = append(ms, Modifier{
			ID: r.uuid(), ModifierID: op.id, ExternalID: "plu-" + op.id, Name: op.name, Quantity: int64(1 + r.intn(2)),
			Price: Money{Amount: op.price}, Modifiers: randomModifiers(r, op.options),
		})
	}
	return ms
}

// LargeOrder returns an overlay for [Server.AddOrder] with the given number of lines, as a company that
// orders lunch for everybody sends it.
func LargeOrder(lines int) Order {
	r := newRandom(1, "large order")
	o := Order{Note: "Sammelbestellung Büro, bitte alles einzeln beschriften"}
	for range lines {
		o.Items = append(o.Items, randomItem(r))
	}
	return o
}
