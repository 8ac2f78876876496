package bolt_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// The engine works where time is simulated: nothing in it waits for a clock except a locked file.
func TestTheEngineWorksInASimulatedTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		e, err := bolt.Open(path, bolt.Options{})
		require.NoError(t, err)
		errs := make(chan error)
		for _, id := range []string{"a", "b", "c"} {
			go func() { _, err := e.Add(ctx, addition(id)); errs <- err }()
		}
		for range 3 {
			require.NoError(t, <-errs)
		}
		<-e.Changed()
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 2})
		require.NoError(t, err)
		require.Len(t, claimed, 2)
		require.Equal(t, start, time.Now(), "no time passed")

		_, err = bolt.Open(path, bolt.Options{})
		require.ErrorIs(t, err, outbox.ErrLocked)
		require.LessOrEqual(t, time.Since(start), 2*time.Second, "a second one is refused within two seconds")

		synctest.Wait() // everything that is left is the writer, waiting for work
		require.NoError(t, e.Close())
	})
}

func TestManyCallersAtOnceEachGetTheirAnswer(t *testing.T) {
	e, _, _ := onDisk(t)
	const callers = 200
	same := make(chan outbox.Added, callers)
	for range callers {
		go func() { out, _ := e.Add(ctx, addition("one")); same <- out }()
	}
	news := 0
	for range callers {
		if out := <-same; out.Decision == outbox.AddedNew {
			news++
		} else {
			require.Equal(t, outbox.FoundOperation, out.Decision)
		}
	}
	require.Equal(t, 1, news, "one operation, however many ask for it at once")

	claims := make(chan []outbox.Record, callers)
	fill(t, e, 0, 500, 10)
	for range callers {
		go func() {
			out, _ := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 5})
			claims <- out
		}()
	}
	seen := map[string]bool{}
	for range callers {
		for _, r := range <-claims {
			require.False(t, seen[r.ID], "%s was handed out twice", r.ID)
			seen[r.ID] = true
		}
	}
	require.Len(t, seen, 501)
}

func TestCloseWaitsForStepsUnderWay(t *testing.T) {
	e, _, path := onDisk(t)
	const callers = 50
	errs := make(chan error, callers)
	ids := make(chan string, callers)
	for i := range callers {
		id := string(rune('A'+i%26)) + string(rune('a'+i/26))
		go func() {
			_, err := e.Add(ctx, addition(id))
			if err == nil {
				ids <- id
			}
			errs <- err
		}()
	}
	require.NoError(t, e.Close())
	for range callers {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, outbox.ErrClosed)
		}
	}
	close(ids)
	e, _ = openOn(t, path)
	n := 0
	for id := range ids {
		_, err := e.Get(ctx, id)
		require.NoError(t, err, "%s was answered", id)
		n++
	}
	require.Equal(t, n, states(t, e)[outbox.Queued], "and what was refused is not there")
}

// The disk was full, and has room again before anything new is added.
func TestResultsKeepTheirBodiesAgainWhenTheDiskHasRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	synctest.Test(t, func(t *testing.T) {
		d := bolttest.NewDisk()
		var o bolt.Options
		d.Attach(&o)
		e := open(t, path, o)
		for _, id := range []string{"a", "b", "c"} {
			add(t, e, id)
		}
		claimed := claim(t, e, 3)
		d.FailWith(bolttest.WriteData, 1, syscall.ENOSPC)
		_, err := e.Add(ctx, addition("d"))
		require.ErrorIs(t, err, outbox.ErrFull)
		settle := func(i int) *outbox.Result {
			out, err := e.Settle(ctx, outbox.Settlement{ID: claimed[i].ID, Claim: claimed[i].Claim.Token, Now: now,
				To: outbox.Succeeded, Result: &outbox.Result{Status: 200, Body: []byte("{}")}})
			require.NoError(t, err)
			return out[0].Record.Result
		}
		require.True(t, settle(0).Truncated, "bodies are left out at first")
		time.Sleep(bolt.RoomEvery + time.Second)
		settle(1) // its commit is followed by a look
		require.False(t, settle(2).Truncated)
		require.NoFileExists(t, path+".ballast.new")
		require.FileExists(t, path+".ballast")
		require.NoError(t, e.Close())
	})
}
