//go:build !linux

package dispatch

import "time"

// MachineUptime cannot tell a boot from another here; ages are then known from Flavoso's clock alone.
func MachineUptime() Uptime {
	return func() (string, time.Duration) { return "", 0 }
}
