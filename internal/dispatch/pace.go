package dispatch

import "time"

// pace bounds how many attempts of a connection run at once: it starts wide open, halves when Flavoso or
// the network shows strain, starts from one after an outage, and then doubles until half the last limit,
// after which it grows by one.
//
// It grows by time, not by answer. Ten thousand devices that come back at once and each send two requests
// for every answer they get would ask for twice what the server can do, for as long as it can do less than
// they want.
type pace struct {
	max       float64 // never more than this
	limit     float64
	threshold float64 // slow start ends here
	growAt    time.Time
	inflight  int
}

// growEvery is the least time from one growth to the next.
const growEvery = 5 * time.Second

func newPace(max int) pace {
	return pace{max: float64(max), limit: float64(max), threshold: float64(max)}
}

// free returns how many more attempts may start now.
func (p *pace) free() int { return max(int(p.limit)-p.inflight, 0) }

// open reports whether nothing but the bound limits the attempts.
func (p *pace) open() bool { return p.limit >= p.max }

// good notes an answer without strain.
func (p *pace) good(now time.Time) {
	switch {
	case p.open() || now.Before(p.growAt):
		return
	case p.limit < p.threshold:
		p.limit = min(2*p.limit, p.threshold)
	default:
		p.limit++
	}
	p.limit = min(p.limit, p.max)
	p.growAt = now.Add(growEvery)
}

// strained notes a 429, a 5xx or a timeout. The limit halves, but not below least.
func (p *pace) strained(least float64, now time.Time) {
	p.limit = max(p.limit/2, min(p.limit, least), 1)
	p.threshold = p.limit
	p.growAt = now.Add(growEvery)
}

// restart begins again after an outage.
func (p *pace) restart(now time.Time) {
	p.threshold = max(p.limit/2, 1)
	p.limit = 1
	p.growAt = now.Add(growEvery)
}
