package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows on a terminal how far long work has come; on anything else it is silent.
type progress struct {
	bar  *progressbar.ProgressBar
	done int64
}

// newProgress starts a bar for a total of steps, or of bytes; -1 = nobody knows how much there is to do.
func newProgress(w io.Writer, what string, total int64, bytes bool) *progress {
	p := &progress{}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(bytes), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30), progressbar.OptionSpinnerType(14))
	return p
}

// to moves the bar; a terminal that takes nothing more is no reason to stop the work.
func (p *progress) to(done int64) {
	if p.bar == nil || done <= p.done && done != 0 {
		return
	}
	p.done = done
	_ = p.bar.Set64(done)
}

// step moves it by one.
func (p *progress) step() { p.to(p.done + 1) }

// end removes it from the terminal.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
