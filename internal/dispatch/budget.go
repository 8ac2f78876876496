package dispatch

// budget bounds how much a struggling server is asked again. Every answer under strain (429, 5xx, none at
// all) costs, every other answer earns. While nothing is left the connection rests after each strained
// answer, longer from one to the next, so that what an outage costs depends neither on the backlog nor on
// the number of lanes (S17, W10). After an outage it starts empty: who comes back to a server that is
// still struggling learns it with one request.
type budget struct {
	left  float64
	empty int // strained answers in a row since nothing was left
}

const (
	budgetSize   = 20
	strainCost   = 4
	answerEarned = 1
	afterOutage  = 4
)

func newBudget() budget { return budget{left: budgetSize} }

func (b *budget) good() {
	b.left = min(b.left+answerEarned, budgetSize)
	if !b.spent() {
		b.empty = 0
	}
}

// strained notes an answer under strain and reports how many in a row have found the budget empty; the
// connection rests the longer the more there are, and not at all at 0.
func (b *budget) strained() int {
	if b.left >= strainCost {
		b.left -= strainCost
		return 0
	}
	b.left = 0
	b.empty++
	return b.empty
}

// spent reports whether the next strained answer makes the connection rest.
func (b *budget) spent() bool { return b.left < strainCost }

// restart begins again after an outage in which so many probes failed: a hiccup costs nothing.
func (b *budget) restart(probes int) {
	if probes > 0 {
		b.left, b.empty = 0, min(probes, afterOutage)
	}
}
