package dispatch

import (
	"encoding/json"
	"time"
)

// anchorSaved is how often the anchor is saved while answers come in.
const anchorSaved = time.Hour

// savedAnchor is the anchor as it survives a restart of the process, within one boot of the machine.
type savedAnchor struct {
	Server time.Time     `json:"server"`
	Wall   time.Time     `json:"wall"`
	Boot   string        `json:"boot"`
	Uptime time.Duration `json:"uptime"`
}

// unsaved returns the anchor to save, and nil when the one that was saved will do.
func (c *clock) unsaved() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() || c.boot == "" || !c.saved.IsZero() && c.server.Sub(c.saved).Abs() < anchorSaved {
		return nil
	}
	text, err := json.Marshal(savedAnchor{Server: c.server, Wall: c.wallAt.Round(0), Boot: c.boot, Uptime: c.up})
	if err != nil {
		return nil
	}
	c.saved = c.server
	return text
}

// restore takes up a saved anchor. After another boot nothing tells how long ago it was.
func (c *clock) restore(text []byte) {
	var a savedAnchor
	boot, up := c.uptime()
	if json.Unmarshal(text, &a) != nil || a.Server.IsZero() || boot == "" || a.Boot != boot || up < a.Uptime {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() || a.Uptime > c.up {
		c.server, c.wallAt, c.boot, c.up = a.Server, a.Wall, a.Boot, a.Uptime
		c.local, c.saved = time.Now(), a.Server
	}
}
