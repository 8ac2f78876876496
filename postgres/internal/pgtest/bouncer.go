package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer starts pgbouncer in transaction mode, with two server connections, in front of the database dsn names.
// It returns the connection string to use, or skips or fails like DSN when pgbouncer is not installed.
func Bouncer(t testing.TB, dsn string) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer" // Debian keeps it out of a user's PATH
		_, err = os.Stat(path)
	}
	if err != nil {
		if os.Getenv(EnvRequire) == "1" {
			t.Fatalf("%s needs pgbouncer and %s=1 is set: %v", t.Name(), EnvRequire, err)
		}
		t.Skipf("%s needs pgbouncer: %v", t.Name(), err)
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	dir, err := os.MkdirTemp("", "flavoso-pgb-")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ini := fmt.Sprintf(`[databases]
bounced = %s
[pgbouncer]
listen_addr =
unix_socket_dir = %s
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
logfile = %s
`, strings.ReplaceAll(dsnOf(cfg, cfg.Database), " sslmode=disable", ""), dir, filepath.Join(dir, "log"))
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	attr, err := unprivileged(dir)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	cmd := exec.Command(path, file)
	var out bytes.Buffer
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = attr, dir, &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	bounced := fmt.Sprintf("host='%s' port=6432 user='%s' dbname=bounced sslmode=disable", dir, cfg.User)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, bounced)
		if err == nil {
			_ = conn.Close(ctx)
			return bounced
		}
		select {
		case end := <-ended:
			ended <- end
			t.Fatalf("pgtest: pgbouncer ended: %v\n%s", end, out.String())
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("pgtest: pgbouncer does not answer: %v\n%s", err, log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
