package mockserver_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestAnHourInNoTime is shown in docs/mock.md.
func TestAnHourInNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.Start(t)
		srv.Inject(mockserver.Delay(time.Hour).Times(1))
		client := &http.Client{Transport: srv.Transport()}
		began := time.Now()
		resp, err := client.Get(srv.BaseURL() + "/menu")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.GreaterOrEqual(t, time.Since(began), time.Hour)
	})
}
