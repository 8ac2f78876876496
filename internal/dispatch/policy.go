package dispatch

import "github.com/flavoso/flavoso-go/outbox"

// Policy is what dispatch must know of the calls it sends: which it can judge, and how to read back
// whether a wish came true.
type Policy interface {
	// Known reports whether this version knows the kind. An operation of an unknown kind is kept and
	// shown, not sent.
	Known(kind string) bool
	// Reader returns the target whose answer tells whether the operation's wish holds; false = there is
	// none.
	Reader(rec *outbox.Record) (target string, ok bool)
	// Judge compares a successful answer of the reader with the wish.
	Judge(rec *outbox.Record, body []byte) Finding
}

// Wish says how an operation's wish compares with what was read.
type Wish int

const (
	// Open: it has not come true, and sending the operation would still make sense.
	Open Wish = iota
	// Fulfilled: it has come true, or the resource has moved on past it.
	Fulfilled
	// Impossible: what is there contradicts it.
	Impossible
	// Unreadable: the answer does not tell.
	Unreadable
)

// Finding is what a reader's answer says.
type Finding struct {
	Wish     Wish
	Body     []byte // the resource as it is now, in the form the call itself answers with; nil when there is none
	Resource string // its id
}
