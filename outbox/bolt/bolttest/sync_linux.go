package bolttest

import (
	"os"
	"syscall"
)

// breakSync lets the descriptor stand for /dev/null, which takes no sync, until the commit has failed.
// Writes go on to the file.
func (h *hooked) breakSync() bool {
	fd := int(h.f.Fd())
	keep, err := syscall.Dup(fd)
	if err != nil {
		return false
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR, 0)
	if err != nil {
		_ = syscall.Close(keep)
		return false
	}
	_ = syscall.Dup3(null, fd, syscall.O_CLOEXEC)
	_ = syscall.Close(null)
	h.real = os.NewFile(uintptr(keep), h.path)
	h.d.mu.Lock()
	h.d.restore = func() {
		_ = syscall.Dup3(keep, fd, syscall.O_CLOEXEC)
		_ = h.real.Close()
		h.real, h.data = nil, false
	}
	h.d.mu.Unlock()
	return true
}
