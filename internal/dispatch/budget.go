package dispatch

// budget bounds how much a struggling server is asked again. Every answer under strain (429, 5xx, none at
// all) costs, every other answer earns; while nothing is left, a connection makes one attempt per pause
// instead of one per operation, so that a backlog of any size cannot amplify an outage (S17, W10).
type budget struct {
	left  float64
	empty int // strained answers in a row since nothing was left
}

const (
	budgetSize   = 40
	strainCost   = 4
	answerEarned = 1
)

func newBudget() budget { return budget{left: budgetSize} }

func (b *budget) good() {
	b.left = min(b.left+answerEarned, budgetSize)
	b.empty = 0
}

// strained notes an answer under strain and reports how many in a row have found the budget empty; the
// connection rests the longer the more there are, and not at all at 0.
func (b *budget) strained() int {
	b.left = max(b.left-strainCost, 0)
	if b.left >= strainCost {
		return 0
	}
	b.empty++
	return b.empty
}
