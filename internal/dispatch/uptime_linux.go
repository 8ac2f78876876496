package dispatch

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MachineUptime returns the kernel's boot id and the time since that boot, suspended time included.
func MachineUptime() Uptime {
	boot := sync.OnceValue(func() string {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	})
	return func() (string, time.Duration) {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			return "", 0
		}
		return boot(), time.Duration(ts.Nano())
	}
}
