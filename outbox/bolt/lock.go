package bolt

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// lockRetry is the pause between two tries to get the lock.
const lockRetry = 25 * time.Millisecond

// lockFile is the file that says who has the outbox open. It is never replaced or removed: the outbox
// file itself may be, by compaction, and two processes could then hold locks on two files of one name.
type lockFile struct{ f *os.File }

// acquireLock takes the lock of the outbox, waiting up to timeout for its holder to end.
func acquireLock(path, outboxPath string, timeout time.Duration) (*lockFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("outbox %s: %w", outboxPath, classify(err))
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		ok, err := tryLock(f)
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("outbox %s: locking %s: %w", outboxPath, path, err)
		}
		if ok {
			break
		}
		select {
		case <-retry.C:
		case <-end.C:
			held := &outbox.LockedError{Path: outboxPath}
			held.PID, held.Since = readHolder(f)
			_ = f.Close()
			return nil, held
		}
	}
	l := &lockFile{f}
	if err := l.sign(); err != nil {
		_ = l.release()
		return nil, fmt.Errorf("outbox %s: writing %s: %w", outboxPath, path, classify(err))
	}
	return l, nil
}

// sign writes who holds the lock. It is for people and error messages; nothing depends on it.
func (l *lockFile) sign() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt(fmt.Appendf(nil, "%d %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339)), 0)
	return err
}

func readHolder(f *os.File) (pid int, since time.Time) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 256))
	if err != nil {
		return 0, since
	}
	p, s, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	pid, _ = strconv.Atoi(p)
	since, _ = time.Parse(time.RFC3339, s)
	return pid, since
}

// release gives the lock up; closing the file does.
func (l *lockFile) release() error { return l.f.Close() }
