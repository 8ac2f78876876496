package bolt

import (
	"bytes"
	"crypto/rand"
	"os"
)

// ballast is a file of plain bytes beside the outbox. When the disk is full, giving its space back lets
// results still be saved: without it nothing could be finished, and nothing freed, ever again.
type ballast struct {
	path string
}

const ballastSize = 512 << 10

// restore makes the ballast when it is missing, and reports whether it is there. It is a precaution: on a
// full disk there is none.
func (b *ballast) restore() bool {
	if info, err := os.Stat(b.path); err == nil && info.Size() == ballastSize {
		return true
	}
	// Random bytes, so that no file system stores them in less space than they take.
	fill := make([]byte, ballastSize)
	_, _ = rand.Read(fill)
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = bytes.NewReader(fill).WriteTo(f)
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		b.release()
	}
	return err == nil
}

// fitsAgain reports whether the disk has room for the ballast and as much beside it.
func (b *ballast) fitsAgain() bool {
	more := ballast{path: b.path + tempSuffix}
	defer more.release()
	return b.restore() && more.restore()
}

func (b *ballast) release() { _ = os.Remove(b.path) }
