package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/flavoso/flavoso-go/outbox"
)

// What the writer does when a commit fails.
//
//	disk full, found by a write   nothing was saved; what accepts something new is refused, the rest is
//	                              tried again without result bodies, at last with the ballast's space
//	any other failure of a commit the result is unknown, and pages that a failed sync has dropped may
//	                              still look written: the engine goes on from a fresh copy only. The copy
//	                              also tells whether the wave was committed.
//	damage                        the file is salvaged, and the wave runs again
//
// When the copy cannot be made nothing more is saved, and every later step tries again first.

// commitError says that Commit itself failed.
type commitError struct{ err error }

func (c *commitError) Error() string { return c.err.Error() }
func (c *commitError) Unwrap() error { return c.err }

func isFault(err error) bool {
	var f *fault
	return errors.As(err, &f)
}

// isDamage reports whether the file does not hold what was written to it.
func isDamage(err error) bool {
	return isFault(err) || errors.Is(err, errFrame) || errors.Is(err, errNotOutbox) || errors.Is(err, berrors.ErrInvalid) ||
		errors.Is(err, berrors.ErrChecksum) || errors.Is(err, berrors.ErrVersionMismatch)
}

// ready makes sure that the next commit may be tried.
func (e *Engine) ready() error {
	if e.broken == nil {
		return e.inPlace()
	}
	if errors.Is(e.broken, errReplaced) {
		return e.broken
	}
	if time.Now().Before(e.retry) {
		return fmt.Errorf("%w: %w", outbox.ErrFault, e.broken)
	}
	start := time.Now()
	if err := e.goOn(e.broken); err != nil {
		e.fail(err, start)
		return fmt.Errorf("%w: %w", outbox.ErrFault, e.broken)
	}
	e.broken = nil
	return nil
}

// goOn makes the engine ready again after a failure, from a fresh copy or from what can be salvaged.
func (e *Engine) goOn(cause error) error {
	if e.moved {
		// The copy has its name already; what came after failed.
		if err := syncDir(filepath.Dir(e.path)); err != nil {
			return err
		}
		return e.swap((*file).abandon)
	}
	if isDamage(cause) {
		return e.salvage(cause)
	}
	err := e.rewrite()
	if isDamage(err) && !e.moved {
		return e.salvage(err)
	}
	return err
}

// fail notes that nothing can be saved. The next step tries again at once where trying is cheap; a big
// file is not copied over and over.
func (e *Engine) fail(err error, since time.Time) {
	e.broken = err
	e.retry = time.Time{}
	if took := time.Since(since); took > time.Second {
		e.retry = time.Now().Add(10 * took)
	}
}

// maxRebuilds bounds how often one wave is tried on a fresh copy.
const maxRebuilds = 3

var errGivenUp = errors.New("it failed again on fresh copies")

// save makes a wave durable and leaves each step's answer in it.
func (e *Engine) save(wave []*step) {
	full := 0
	rebuilt := 0
	for len(wave) > 0 {
		err := e.transact(wave, full > 1 || e.diskFull)
		if err == nil {
			e.saved(wave)
			return
		}
		if isWriteFull(err) {
			full++
			wave = e.makeRoom(wave, full, err)
			continue
		}
		var ce *commitError
		unknown := errors.As(err, &ce)
		if !unknown && !isDamage(err) {
			answer(wave, classify(err))
			return
		}
		start, tried, salvages := time.Now(), e.tried, e.salvages
		rerr := errGivenUp
		if rebuilt++; rebuilt <= maxRebuilds {
			rerr = e.goOn(err)
		}
		if rerr != nil {
			e.fail(errors.Join(err, rerr), start)
			if unknown {
				answer(wave, &outbox.SaveError{Err: e.broken})
			} else {
				answer(wave, fmt.Errorf("%w: %w", outbox.ErrFault, e.broken))
			}
			return
		}
		if unknown && e.salvages == salvages && e.commits == tried {
			e.saved(wave) // the copy has the wave: it was committed after all
			return
		}
		// What was salvaged may have it or not: the wave runs again, and finds what it did.
	}
}

func answer(wave []*step, err error) {
	for _, s := range wave {
		s.err = err
	}
}

// roomEvery is how often a full disk is asked whether there is room again.
const roomEvery = 10 * time.Second

// makeRoom answers what a full disk refuses and returns the steps to try again.
func (e *Engine) makeRoom(wave []*step, full int, err error) (rest []*step) {
	e.lookAt = time.Now().Add(roomEvery)
	e.diskFull = true // space is kept for what cannot be done without until something new fits again
	refused := &outbox.FullError{Limit: "disk", Err: err}
	switch full {
	case 1:
		for _, s := range wave {
			if s.adds {
				s.err = refused
			} else {
				rest = append(rest, s)
			}
		}
		return rest
	case 2:
		return wave // once more, without the bodies of results: the ballast is for what cannot be done without
	case 3:
		e.ballast.release()
		return wave
	}
	answer(wave, refused)
	return nil
}

// saved does what follows a successful commit.
func (e *Engine) saved(wave []*step) {
	answer(wave, nil)
	for _, s := range wave {
		if s.adds && e.diskFull {
			e.diskFull = false // there is room on the disk again
			e.ballast.restore()
		}
	}
	if e.diskFull {
		_, free := e.space()
		e.diskFull = free < ballastSize // or in the file
	}
	if now := time.Now(); e.diskFull && now.After(e.lookAt) {
		// Nothing may ever be added again, so the disk itself is asked too.
		e.lookAt = now.Add(roomEvery)
		if e.ballast.fitsAgain() {
			e.diskFull = false
		}
	}
	if !e.markDue {
		e.markDue = true
		e.poke()
	}
	if e.mark.commits == 0 || e.commits >= e.mark.commits+markEvery {
		e.bringMarkUp()
	}
}
