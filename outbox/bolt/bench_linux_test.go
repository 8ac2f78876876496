package bolt_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// dropCache makes the next reads of a file come from the disk.
func dropCache(b *testing.B, path string) {
	f, err := os.Open(path)
	require.NoError(b, err)
	defer func() { _ = f.Close() }()
	require.NoError(b, unix.Fdatasync(int(f.Fd())))
	require.NoError(b, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// privateMemory returns the bytes of memory that are the process's own: not those of mapped files.
func privateMemory(b *testing.B) int64 {
	f, err := os.Open("/proc/self/smaps_rollup")
	require.NoError(b, err)
	defer func() { _ = f.Close() }()
	var sum int64
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) == 3 && fields[0] == "Anonymous:" {
			var n int64
			for _, c := range fields[1] {
				n = n*10 + int64(c-'0')
			}
			sum += n << 10
		}
	}
	return sum
}
