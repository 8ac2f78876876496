package outbox

import "time"

// Report says what was found wrong with an outbox's storage and what became of it.
type Report struct {
	At       time.Time
	Cause    string
	Aside    string // where the damaged file is kept; empty = the file itself was whole
	Salvaged int    // records that were read whole
	Damaged  int    // records that are kept as damaged: known, but not readable whole
	Lost     int    // records that must have been there and of which nothing is left; -1 = nobody can tell how many
	Suspect  int    // unfinished records that count as sent from now on
}

// Reports returns what an engine has found wrong with its storage since it was opened. An engine tells with a
// method Reports() []Report; one without it has nothing to tell.
func Reports(e Engine) []Report {
	r, ok := e.(interface{ Reports() []Report })
	if !ok {
		return nil
	}
	return r.Reports()
}
