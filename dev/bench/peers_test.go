package bench

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-retryablehttp"
	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"maragu.dev/goqite"

	"github.com/flavoso/flavoso-go/internal/versus"
)

// The benchmarks of P10 compare with other ways to keep what is to be sent, at equal durability: what counts as
// saved is synced. "x-ahead" is a peer's time divided by ours: above 1 we are ahead.

// openGoqite opens a goqite queue on SQLite that syncs every commit.
func openGoqite(b *testing.B) *goqite.Queue {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(b.TempDir(), "queue.db")+"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000")
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // as its documentation advises: SQLite has one writer
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "maragu.dev/goqite").Output()
	require.NoError(b, err)
	schema, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema_sqlite.sql"))
	require.NoError(b, err)
	_, err = db.Exec(string(schema))
	require.NoError(b, err)
	var level int
	require.NoError(b, db.QueryRow("PRAGMA synchronous").Scan(&level))
	require.Equal(b, 2, level, "synchronous=FULL")
	return goqite.New(goqite.NewOpts{DB: db, Name: "orders"})
}

// BenchmarkP10Goqite compares with goqite on SQLite: saving, and the whole life of an operation until it is done.
func BenchmarkP10Goqite(b *testing.B) {
	message := goqite.Message{Body: recordBytes}
	for _, producers := range []int{1, 64} {
		n := 640 / producers
		if producers == 1 {
			n = 20
		}
		b.Run(fmt.Sprintf("save/%d", producers), func(b *testing.B) {
			e, _ := openOutbox(b, filepath.Join(b.TempDir(), "pos.outbox"))
			client := offlineClient(b, e)
			id, queue := ids("op"), openGoqite(b)
			ahead(b, each(b, producers, n, func(ctx context.Context) error {
				_, err := accept(client, id()).Enqueue(ctx)
				return err
			}), each(b, producers, n, func(ctx context.Context) error { return queue.Send(ctx, message) }))
		})
		b.Run(fmt.Sprintf("life/%d", producers), func(b *testing.B) {
			a := newAPI(b)
			client, _ := openClient(b, a, producers)
			id, other, queue, plain := ids("op"), ids("peer"), openGoqite(b), newHTTPClient(b, producers)
			ahead(b, each(b, producers, n, func(ctx context.Context) error {
				_, err := accept(client, id()).Do(ctx)
				return err
			}), each(b, producers, n, func(ctx context.Context) error {
				if err := queue.Send(ctx, message); err != nil {
					return err
				}
				m, err := queue.Receive(ctx)
				if err != nil || m == nil {
					return fmt.Errorf("receive: %v, %w", m, err)
				}
				if _, err := a.post(plain, other()); err != nil {
					return err
				}
				return queue.Delete(ctx, m.ID)
			}))
		})
	}
}

// BenchmarkP10HandMade compares with what people write themselves: save in bbolt, send with retryablehttp, delete. With
// many at once it uses bbolt's batches.
func BenchmarkP10HandMade(b *testing.B) {
	for _, producers := range []int{1, 64} {
		n := 640 / producers
		if producers == 1 {
			n = 20
		}
		b.Run(fmt.Sprintf("life/%d", producers), func(b *testing.B) {
			a := newAPI(b)
			client, _ := openClient(b, a, producers)
			id, other, book := ids("op"), ids("peer"), openNotebook(b)
			save := book.db.Update
			if producers > 1 {
				save = func(fn func(*bbolt.Tx) error) error { return book.db.Batch(fn) }
			}
			retrying := retryablehttp.NewClient()
			retrying.HTTPClient, retrying.Logger = newHTTPClient(b, producers), nil
			ahead(b, each(b, producers, n, func(ctx context.Context) error {
				_, err := accept(client, id()).Do(ctx)
				return err
			}), each(b, producers, n, func(ctx context.Context) error {
				k := book.key()
				if err := save(put(k, recordBytes)); err != nil {
					return err
				}
				if err := sendRetrying(ctx, retrying, a, other()); err != nil {
					return err
				}
				return save(remove(k))
			}))
		})
	}
}

func sendRetrying(ctx context.Context, c *retryablehttp.Client, a *api, id string) error {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, a.baseURL()+"/orders/"+id+"/accept", []byte(acceptBody))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer token")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "accept-"+id)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = new(bytes.Buffer).ReadFrom(resp.Body)
	return err
}

// ahead runs a match and reports how far we are ahead of the peer.
func ahead(b *testing.B, mine, peer func()) {
	m := versus.New(mine, peer)
	m.Round() // connections, first pages
	for b.Loop() {
		m.Round()
	}
	b.ReportMetric(m.Ratio(1, 0), "x-ahead")
}
