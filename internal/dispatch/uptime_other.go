//go:build !linux

package dispatch

import (
	"time"

	"github.com/google/uuid"
)

// MachineUptime cannot tell one boot of the machine from another here; it names this process instead, so
// that ages within it are known, and those over a restart come from Flavoso's clock alone.
func MachineUptime() Uptime { return processUptime(processBoot+uuid.NewString(), time.Now) }
