package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/dev/torture/judge"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
)

// fleetConnections are the connections of a fleet.
func (r *round) fleetConnections() []string {
	var out []string
	for i := range 6 {
		out = append(out, fmt.Sprintf("store-%d", i))
	}
	return out
}

// startFleet starts the fleet's database and makes its tables.
func (r *round) startFleet() error {
	var err error
	if r.database, err = startDatabase(); err != nil {
		return err
	}
	for _, c := range r.fleetConnections() {
		if err := r.rotate(c); err != nil {
			return err
		}
	}
	env, err := plan.Environ(plan.Till{BaseURL: r.server.url, Connections: r.fleetConnections()[:1], TokenDir: r.dir, Outbox: r.database.dsn(),
		Account: filepath.Join(r.dir, "migration.jsonl"), Migrate: true, EndAfter: time.Millisecond})
	if err != nil {
		return err
	}
	cmd := exec.Command(r.worker)
	cmd.Env = env
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("migrating: %w\n%s", err, text)
	}
	return nil
}

// fleetTill puts the accounts of a fleet's workers together: they have one outbox.
func fleetTill(workers []judge.Till) judge.Till {
	all := judge.Till{Purges: workers[0].Purges}
	for _, t := range workers {
		all.Events = append(all.Events, t.Events...)
		all.Purges = all.Purges || t.Purges
		all.Hold = max(all.Hold, t.Hold)
	}
	slices.SortStableFunc(all.Events, func(a, b account.Event) int { return a.At.Compare(b.At) })
	return all
}

// database is a throw-away PostgreSQL server.
type database struct {
	bin, dir string
	attr     *syscall.SysProcAttr
	cmd      *exec.Cmd
}

func (d *database) dsn() string {
	return fmt.Sprintf("host='%s' user='flavoso' dbname='postgres' sslmode=disable", d.dir)
}

// findPostgres returns the directory of the newest PostgreSQL server's programs.
func findPostgres() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_isready") // Debian keeps them out of PATH
	if path, err := exec.LookPath("pg_isready"); err == nil && len(found) == 0 {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", errors.New("it needs a PostgreSQL server")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func startDatabase() (*database, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	d := &database{bin: bin}
	if d.dir, err = os.MkdirTemp("", "torture-pg-"); err != nil { // a socket's path must be short
		return nil, err
	}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(d.dir, uid, gid); err != nil {
			return nil, err
		}
		d.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(d.dir, "data"), "-U", "flavoso", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = d.attr, d.dir
	if text, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, text)
	}
	if err := d.start(); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *database) start() error {
	d.cmd = exec.Command(filepath.Join(d.bin, "postgres"), "-D", filepath.Join(d.dir, "data"), "-k", d.dir, "-c", "listen_addresses=",
		"-c", "max_connections=200", "-c", "log_min_messages=panic", "-c", "shared_buffers=32MB")
	d.cmd.SysProcAttr, d.cmd.Dir = d.attr, d.dir
	if err := d.cmd.Start(); err != nil {
		return err
	}
	for range 1000 {
		if exec.Command(filepath.Join(d.bin, "pg_isready"), "-q", "-h", d.dir).Run() == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("PostgreSQL does not get ready")
}

// restart ends the server as a crash does, and starts it again.
func (d *database) restart() error {
	_ = d.cmd.Process.Signal(syscall.SIGQUIT)
	_ = d.cmd.Wait() // it was told to give up
	return d.start()
}

func (d *database) stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGQUIT)
	_ = d.cmd.Wait()
	if strings.HasPrefix(filepath.Base(d.dir), "torture-pg-") {
		return os.RemoveAll(d.dir)
	}
	return nil
}
