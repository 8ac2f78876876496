package pgoutbox

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/flavoso/flavoso-go/outbox"
)

// Statement returns a statement by its name, for tests that ask the planner.
func Statement(name string) string {
	s := newStatements("")
	f := reflect.ValueOf(&s).Elem().FieldByName(name)
	return *(*string)(unsafe.Pointer(f.UnsafeAddr()))
}

// ListStatement returns the statement that List uses.
func ListStatement(q *outbox.Query) (string, []any) {
	after, limit, _ := q.Start()
	e := &Engine{sql: newStatements("")}
	return e.listStatement(q, after, limit, time.Duration(0))
}
