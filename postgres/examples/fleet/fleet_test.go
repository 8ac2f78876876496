package main

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main() // a worker of the story is this binary again
		return
	}
	os.Exit(pgtest.Main(m))
}

// account is written to by the story and its workers.
type account struct {
	mu   sync.Mutex
	text strings.Builder
}

func (a *account) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(p)
}

func (a *account) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

func TestStory(t *testing.T) {
	var out account
	err := story(t.Context(), pgtest.DSN(t), &out)
	t.Log(out.String())
	require.NoError(t, err)
	require.Contains(t, out.String(), "180 reservations made")
	require.Contains(t, out.String(), "0 missing, 0 made twice, 0 that the shop had rolled back")
}
