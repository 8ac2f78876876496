//go:build !race

package idempotency_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Allocations are what of speed can be asserted on any machine.
func TestAllocationsOverTheBareHandler(t *testing.T) {
	bare, first, replay := measured(t, time.Hour)
	base := testing.AllocsPerRun(200, bare)
	require.LessOrEqual(t, testing.AllocsPerRun(200, first)-base, 25.0, "first execution")
	require.LessOrEqual(t, testing.AllocsPerRun(200, replay)-base, 15.0, "replay")
}
