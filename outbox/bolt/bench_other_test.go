//go:build !linux

package bolt_test

import "testing"

// dropCache and privateMemory are known on Linux only.
func dropCache(*testing.B, string) {}

func privateMemory(*testing.B) int64 { return 0 }
