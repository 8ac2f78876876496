package otelflavoso

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

// A process that saves what others send is told of no end: the newest operations have their links all the same.
func TestCallersForgetTheOldest(t *testing.T) {
	c := callers{byID: map[string]trace.SpanContext{}}
	for i := range 3 * callersKept {
		c.remember(fmt.Sprint(i), trace.SpanContext{})
		require.Len(t, c.links(fmt.Sprint(i)), 1)
	}
	require.Len(t, c.byID, callersKept)
	require.Empty(t, c.links("0"))

	for i := range 5 * callersKept { // one stays, and the others are over at once
		id := fmt.Sprint("done ", i)
		c.remember(id, trace.SpanContext{})
		c.forget(id)
	}
	require.LessOrEqual(t, len(c.order), 2*callersKept)
	require.Len(t, c.byID, callersKept-1)
}
