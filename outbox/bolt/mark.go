package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// mark is the small file beside the outbox that says which outbox stands here and how far it had come.
// With it an emptied, missing, restored or exchanged file is told from a new one.
type mark struct {
	id      string
	commits uint64 // a commit that was durable; 0 = nothing was ever accepted
}

// The mark is written when the writer has come to rest, at the latest so long after a commit; under load
// at least every so many commits. An older one is still right, it only notices less.
const (
	markQuiet = 2 * time.Second
	markEvery = 1024
)

const (
	markSuffix = ".mark"
	markHead   = "flavoso outbox mark 1"
)

// errNoMark says that there is no mark, or none that can be read.
var errNoMark = errors.New("no mark")

func readMark(path string) (m mark, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, errNoMark
	}
	if err != nil {
		return m, err
	}
	text, sum, ok := strings.Cut(string(b), "checksum ")
	var got, commits = uint32(0), uint64(0)
	if _, err := fmt.Sscanf(sum, "%08x", &got); !ok || err != nil || got != checksum(nil, nil, []byte(text)) {
		return m, errNoMark
	}
	if _, err := fmt.Sscanf(text, markHead+"\nid %s\ncommits %d\n", &m.id, &commits); err != nil {
		return mark{}, errNoMark
	}
	m.commits = commits
	return m, nil
}

func (m mark) encode() []byte {
	text := fmt.Sprintf("%s\nid %s\ncommits %d\n", markHead, m.id, m.commits)
	return fmt.Appendf(nil, "%schecksum %08x\n", text, checksum(nil, nil, []byte(text)))
}

// bringMarkUp writes the mark if it can.
func (e *Engine) bringMarkUp() {
	if err := e.writeMark(); err != nil {
		e.log().Warn("outbox.mark_not_written", "path", e.path, "error", err)
	}
}

// writeMark brings the mark up to the last durable commit.
func (e *Engine) writeMark() error {
	m := mark{id: e.id, commits: e.commits}
	if m == e.mark {
		return nil
	}
	path := e.path + markSuffix
	temp := path + tempSuffix
	if err := writeSynced(temp, m.encode()); err != nil {
		return err
	}
	if err := e.at(PointMarkWritten); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	if err := e.at(PointMarkRenamed); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return err
	}
	e.mark = m
	return nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
