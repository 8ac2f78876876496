package flavoso

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Printing or logging an outcome shows no guest.
func TestOutcomesArePrintedWithoutBodies(t *testing.T) {
	o := Outcome{ID: "7", Kind: "bookings.create", Resource: "R-1", State: StateRejected, Code: "conflict",
		Body: []byte(`{"name":"Jörg"}`), Message: "Jörg is there already", request: []byte("Jörg")}
	op := Operation{Outcome: o, RequestBody: []byte("Jörg"), Target: "/bookings?name=Jörg"}
	var log bytes.Buffer
	l := slog.New(slog.NewTextHandler(&log, nil))
	l.Info("outcome", "o", o, "op", op)
	for _, text := range []string{fmt.Sprint(o), fmt.Sprintf("%v %+v %s", o, o, o), fmt.Sprintf("%v %+v", op, &op), log.String()} {
		require.NotContains(t, text, "Jörg")
		require.NotContains(t, text, fmt.Sprint([]byte("Jörg")))
		require.Contains(t, text, "bookings.create")
	}
	require.Equal(t, "operation 7", fmt.Sprint(&Pending[Order]{id: "7"}))
}
