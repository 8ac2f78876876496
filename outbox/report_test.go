package outbox_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

type reporting struct{ outbox.Engine }

func (reporting) Reports() []outbox.Report { return []outbox.Report{{Cause: "cut short"}} }

// What an engine has found wrong is told through a sealed one, too.
func TestReportsOfEngines(t *testing.T) {
	require.Empty(t, outbox.Reports(outbox.NewMemory()))
	want := []outbox.Report{{Cause: "cut short"}}
	e := reporting{outbox.NewMemory()}
	require.Equal(t, want, outbox.Reports(e))
	sealed, err := outbox.Seal(e, bytes.Repeat([]byte("k"), 32))
	require.NoError(t, err)
	require.Equal(t, want, outbox.Reports(sealed))
}
