package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a throw-away PostgreSQL server.
type Cluster struct {
	Dir    string // holds the data, the socket and the log
	server func() *exec.Cmd
	cmd    *exec.Cmd
	done   chan error
}

const superuser = "flavoso"

// StartCluster makes a cluster and waits until it accepts connections. With fsync it is as durable, and as
// slow, as a real one. Stop ends it and removes its files.
func StartCluster(fsync bool) (_ *Cluster, err error) {
	bin, err := findServer()
	if err != nil {
		return nil, err
	}
	// A short path: a socket's may have about a hundred characters.
	dir, err := os.MkdirTemp("", "flavoso-pg-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	attr, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", superuser, "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	onoff := map[bool]string{true: "on", false: "off"}[fsync]
	args := []string{"-D", filepath.Join(dir, "data"), "-k", dir}
	for _, s := range []string{"listen_addresses=", "fsync=" + onoff, "full_page_writes=" + onoff, "max_connections=200",
		"max_prepared_transactions=0", "wal_level=minimal", "max_wal_senders=0", "autovacuum=off", "shared_buffers=64MB", "log_min_messages=warning"} {
		args = append(args, "-c", s)
	}
	c := &Cluster{Dir: dir, server: func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
		cmd.SysProcAttr, cmd.Dir = attr, dir
		return cmd
	}}
	return c, c.start()
}

// start starts the server and waits until it accepts connections.
func (c *Cluster) start() error {
	log, err := os.OpenFile(filepath.Join(c.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c.cmd, c.done = c.server(), make(chan error, 1)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait() }(c.cmd, c.done)
	if err := c.await(); err != nil {
		return errors.Join(err, c.Stop())
	}
	return nil
}

// Restart ends the server at once, as a crash does, and starts it again; clients lose their connections. What it
// had committed survives also without fsync: the machine's memory does.
func (c *Cluster) Restart() error {
	if err := c.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	<-c.done
	return c.start()
}

// DSN returns the connection string of a database.
func (c *Cluster) DSN(database string) string {
	return fmt.Sprintf("host='%s' user='%s' dbname='%s' sslmode=disable", c.Dir, superuser, database)
}

func (c *Cluster) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case end := <-c.done:
			c.done <- end
			text, _ := os.ReadFile(filepath.Join(c.Dir, "log"))
			return fmt.Errorf("postgres ended: %v\n%s", end, text)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// Stop ends the server, without waiting for its clients, and removes its files.
func (c *Cluster) Stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGINT) // it may have ended already
	select {
	case <-c.done:
	case <-time.After(10 * time.Second):
		_ = c.cmd.Process.Signal(syscall.SIGQUIT)
		<-c.done
	}
	return os.RemoveAll(c.Dir)
}

// findServer returns the directory of the newest PostgreSQL server installed.
func findServer() (string, error) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian keeps them out of PATH
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	sort.Slice(candidates, func(i, j int) bool { return version(candidates[i]) > version(candidates[j]) })
	if path, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range candidates {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "postgres")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	return "", errors.New("no PostgreSQL server is installed here")
}

// unprivileged returns the attributes of a process that is not root's, and gives dir to its user. The process
// ends when this one dies.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{}
	dieWithParent(attr)
	if os.Getuid() != 0 {
		return attr, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("running as root, and there is neither a user postgres nor a user nobody to run PostgreSQL")
}
