//go:build !linux

package bolttest

// breakSync cannot make a sync fail here.
func (h *hooked) breakSync() bool { return false }
