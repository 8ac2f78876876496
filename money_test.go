package flavoso

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMoneyString(t *testing.T) {
	for want, m := range map[string]Money{
		"12.50 EUR":                 {1250, "EUR"},
		"0.05 EUR":                  {5, "EUR"},
		"-0.05 EUR":                 {-5, "EUR"},
		"0.00 EUR":                  {0, "EUR"},
		"-12.50 EUR":                {-1250, "EUR"},
		"1250 JPY":                  {1250, "JPY"},
		"1.250 KWD":                 {1250, "KWD"},
		"0.1250 CLF":                {1250, "CLF"},
		"12.50":                     {1250, ""},
		"-92233720368547758.08 EUR": {math.MinInt64, "EUR"},
	} {
		assert.Equal(t, want, m.String())
	}
}

func TestMoneyIsExactAndNeverAFloat(t *testing.T) {
	for _, amount := range []int64{0, 1, -1, 1250, math.MaxInt64, math.MinInt64, 1<<53 + 1} {
		b, err := json.Marshal(Money{amount, "EUR"})
		require.NoError(t, err)
		var back Money
		require.NoError(t, json.Unmarshal(b, &back))
		assert.Equal(t, Money{amount, "EUR"}, back)
	}
	for _, bad := range []string{`{"amount":12.5}`, `{"amount":"1250"}`, `{"amount":9223372036854775808}`, `{"amount":1e30}`} {
		var m Money
		assert.Error(t, json.Unmarshal([]byte(bad), &m), bad)
	}
}
