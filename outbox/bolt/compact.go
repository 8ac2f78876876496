package bolt

import (
	"context"
	"fmt"
	"os"
	"time"
)

// A bbolt file never shrinks, and every commit writes the list of its free pages: after a big backlog is
// gone, a commit of one record would cost megabytes for ever. The engine therefore goes on from a fresh
// copy when most of the file is free, and little enough is left that callers do not notice the pause.
const (
	compactFrom   = 16 << 20 // smaller files are left alone
	compactLive   = 64 << 20 // more live data than this is copied only when nine tenths are free
	compactChecks = 64       // commits between two looks
)

// compactIfWorthwhile runs between two waves.
func (e *Engine) compactIfWorthwhile() {
	if e.commits < e.compactAt || e.broken != nil {
		return
	}
	e.compactAt = e.commits + compactChecks
	size, free := e.space()
	live := size - free
	if size < compactFrom || free < size/2 || live > compactLive && free < size/10*9 {
		return
	}
	if err := e.rewrite(); err != nil {
		e.compactAt = e.commits + 16*compactChecks
		e.log().Warn("outbox.not_compacted", "path", e.path, "error", err)
		if e.moved {
			e.fail(err, time.Now()) // the copy is in place; go on from it
		}
	}
}

// space returns the size of the file in use and how much of it is free.
func (e *Engine) space() (size, free int64) {
	info, err := e.file.f.Stat()
	if err != nil {
		return 0, 0
	}
	s := e.file.db.Stats()
	return info.Size(), int64(s.FreePageN+s.PendingPageN) * int64(os.Getpagesize())
}

// Compact gives the file's free space back to the disk now. The engine also does so by itself when most
// of a big file is free. Steps wait while it runs: about a second for each 100 MB that is kept.
func (e *Engine) Compact(ctx context.Context) error {
	return e.do(ctx, &step{alone: func() error {
		if err := e.ready(); err != nil {
			return err
		}
		start := time.Now()
		if err := e.rewrite(); err != nil {
			if e.moved || isDamage(err) {
				e.fail(err, start)
			}
			return fmt.Errorf("outbox %s: compacting: %w", e.path, classify(err))
		}
		return nil
	}})
}
