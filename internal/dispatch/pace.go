package dispatch

// pace bounds how many attempts of a connection run at once: it starts wide open, halves when Flavoso or
// the network shows strain, starts from one after an outage, and then doubles per round of successes
// until half the last limit, after which it grows by one per round.
type pace struct {
	max       float64 // never more than this
	limit     float64
	threshold float64 // slow start ends here
	inflight  int
}

func newPace(max int) pace {
	return pace{max: float64(max), limit: float64(max), threshold: float64(max)}
}

// free returns how many more attempts may start now.
func (p *pace) free() int { return max(int(p.limit)-p.inflight, 0) }

// open reports whether nothing but the bound limits the attempts.
func (p *pace) open() bool { return p.limit >= p.max }

// good notes an answer without strain.
func (p *pace) good() {
	if p.limit < p.threshold {
		p.limit++
	} else {
		p.limit += 1 / p.limit
	}
	p.limit = min(p.limit, p.max)
}

// strained notes a 429, a 5xx or a timeout. The limit halves, but not below least.
func (p *pace) strained(least float64) {
	p.limit = max(p.limit/2, min(p.limit, least), 1)
	p.threshold = p.limit
}

// restart begins again after an outage.
func (p *pace) restart() {
	p.threshold = max(p.limit/2, 1)
	p.limit = 1
}
