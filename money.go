package flavoso

import (
	"strconv"
	"strings"
)

// Money is an amount in minor units of a currency: {1250, "EUR"} is 12.50 €. There is no floating point
// anywhere.
type Money struct {
	Amount   int64  `json:"amount"`   // minor units
	Currency string `json:"currency"` // ISO 4217
}

// String writes the amount with the currency's decimals, e.g. "12.50 EUR"; for people, not for machines.
func (m Money) String() string {
	sign, digits := "", strconv.FormatInt(m.Amount, 10)
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if n := minorDigits(m.Currency); n > 0 {
		if missing := n + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		digits = digits[:len(digits)-n] + "." + digits[len(digits)-n:]
	}
	return strings.TrimSpace(sign + digits + " " + m.Currency)
}

// minorDigits is the number of decimals of a currency (ISO 4217), where it is not 2.
func minorDigits(currency string) int {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	case "CLF", "UYW":
		return 4
	}
	return 2
}
