package dispatch

import (
	"context"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Policy is what dispatch must know of the calls it sends: which it can judge, and how to find out
// whether a wish came true.
type Policy interface {
	// Known reports whether this version knows the kind. An operation of an unknown kind is kept and
	// shown, not sent.
	Known(kind string) bool
	// CanFind reports whether Find can tell anything about the operation.
	CanFind(rec *outbox.Record) bool
	// Asks reports whether Find asks somebody to decide rather than read the resource.
	Asks(rec *outbox.Record) bool
	// Find finds out whether the operation's wish holds. get reads a target with the connection's
	// credentials.
	Find(ctx context.Context, rec *outbox.Record, get Getter) Finding
}

// Getter makes one GET. It returns the body of a success; found is false when there is no such resource,
// and ok is false when nothing can be said.
type Getter func(ctx context.Context, target string) (body []byte, found, ok bool)

// Wish says how an operation's wish compares with what was found.
type Wish int

const (
	// Open: it has not come true, and sending the operation would still make sense.
	Open Wish = iota
	// Fulfilled: it has come true, or the resource has moved on past it.
	Fulfilled
	// Impossible: what is there contradicts it.
	Impossible
	// Unreadable: there was no telling.
	Unreadable
	// GivenUp: whoever decides such things gave the operation up.
	GivenUp
)

// Finding is what Find found.
type Finding struct {
	Wish     Wish
	Body     []byte // the resource as it is now, in the form the call itself answers with; nil when there is none
	Resource string // its id
	// Until is when what the operation asks for ends by itself and stops showing. An Open that is found later than
	// that does not tell whether it had come true. Zero = it stays.
	Until time.Time
	Note  string // who or what decided, for people
}
