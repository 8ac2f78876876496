package bolt_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

// The process is killed, so nothing is written at its end, and a backup of a few commits earlier is put back.
func TestABackupPutBackAfterAKillIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	synctest.Test(t, func(t *testing.T) {
		e := open(t, path, bolt.Options{})
		add(t, e, "a")
		copyFile(t, path, path+".backup")
		claimed := claim(t, e, 1)
		_, err := e.Settle(ctx, outbox.Settlement{ID: "a", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Succeeded})
		require.NoError(t, err)
		time.Sleep(bolt.MarkQuiet)
		synctest.Wait()
		copyFile(t, path+".mark", path+".killed")
		require.NoError(t, e.Close())
	})
	copyFile(t, path+".backup", path)
	copyFile(t, path+".killed", path+".mark")
	e := open(t, path, bolt.Options{})
	r, err := e.Get(ctx, "a")
	require.NoError(t, err)
	require.True(t, r.Suspect, "it was sent since")
}

func TestTheMarkIsWrittenOnceForManyCommitsAndNotAtRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	synctest.Test(t, func(t *testing.T) {
		d := bolttest.NewDisk()
		var o bolt.Options
		d.Attach(&o)
		e := open(t, path, o)
		add(t, e, "first") // the first commit of all has its mark at once
		time.Sleep(time.Hour)
		synctest.Wait()
		before := d.Count(bolt.PointMarkRenamed)
		for _, id := range []string{"a", "b", "c"} {
			add(t, e, id)
		}
		require.Equal(t, before, d.Count(bolt.PointMarkRenamed), "no caller waits for it")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, before+1, d.Count(bolt.PointMarkRenamed))
		require.NoError(t, e.Close())
		require.Equal(t, before+1, d.Count(bolt.PointMarkRenamed))
	})
}
