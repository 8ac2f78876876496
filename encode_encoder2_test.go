//go:build encoder2

package flavoso

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const encoder2 = true

func TestTheSecondEncoderWritesTheSameJSONWithOtherBytes(t *testing.T) {
	for _, v := range []any{
		RejectParams{Reason: ReasonItemUnavailable, UnavailableItems: []string{"b", "a"}},
		BookingParams{PartySize: 4, Customer: BookingCustomer{Name: "A", Phone: "1"}}.withReference("17"),
		map[string]any{"a": 1.0, "b": []any{map[string]any{"c": nil, "d": "{}[],:"}, []any{}}, "e": map[string]any{}},
	} {
		plain, err := marshal(v)
		require.NoError(t, err)
		other, err := encodeBody(v)
		require.NoError(t, err)
		assert.JSONEq(t, string(plain), string(other))
		assert.NotEqual(t, string(plain), string(other))
	}
}
