package flavoso

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		until := time.Now().Add(30 * time.Minute)
		got, err := s.Store.Update(UpdateStoreParams{PausedUntil: Set(until), PauseReason: Set("Küche voll")}).Do(t.Context())
		require.NoError(t, err)
		require.True(t, got.Paused(time.Now()))
		require.False(t, got.Paused(until))
		got, err = s.Store.Update(UpdateStoreParams{DefaultPreparationMinutes: Set(45)}).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Küche voll", got.PauseReason, "absent fields stay")
		got, err = s.Store.Update(UpdateStoreParams{PausedUntil: Null[time.Time]()}).Do(t.Context())
		require.NoError(t, err)
		require.False(t, got.Paused(time.Now()), "null resumes")
		require.Equal(t, 45, got.DefaultPreparationMinutes)
		got, err = s.Store.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Europe/Berlin", got.Timezone)
		require.Contains(t, string(got.Raw), `"object":"store"`)

		hours, err := s.Store.Hours(t.Context())
		require.NoError(t, err)
		require.NoError(t, hours.Validate())
		hours.SpecialDays = append(hours.SpecialDays, SpecialDay{Date: "2000-12-25", Closed: true})
		back, err := s.Store.PutHours(hours).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, hours, back)
	})
}
