package pgidem

// For tests that ask the planner.
var (
	SweepSQL   = newStatements("").sweep
	StatsSQL   = newStatements("").stats
	OpenSQL    = newStatements("").listOpen
	LapsedNote = lapsedNote
)
