package flavoso

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	Pointer string `json:"param"`   // JSON pointer (RFC 6901) into the document, e.g. "/items/3/price/amount"
	Code    string `json:"code"`    // e.g. "required", "duplicate", "unknown", "out_of_range", "overlap"
	Message string `json:"message"` // for people
}

// ValidationError says everything that is wrong with a menu or with opening hours. Nothing was saved or
// sent: errors.Is(err, ErrNotSaved). errors.As finds the first fault as a *ParamError, too.
type ValidationError struct {
	Faults []Fault // at least one, in the order of the document's parts
}

func (e *ValidationError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "flavoso: %d faults: ", len(e.Faults))
	if len(e.Faults) == 1 {
		b.Reset()
		b.WriteString("flavoso: ")
	}
	for i, f := range e.Faults {
		if i == most {
			b.WriteString("; …")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", f.Pointer, f.Message)
	}
	return b.String()
}

// Unwrap returns every fault as a *ParamError.
func (e *ValidationError) Unwrap() []error {
	errs := make([]error, len(e.Faults))
	for i, f := range e.Faults {
		errs[i] = &ParamError{Field: f.Pointer, Rule: f.Message}
	}
	return errs
}

// Faults returns what Flavoso found wrong, one by one, from the answer's body (A1, A3); nil when the answer
// has no such list.
func (e *APIError) Faults() []Fault {
	type details struct {
		Details []Fault `json:"details"`
	}
	var answer struct {
		Error details `json:"error"`
		details
	}
	if json.Unmarshal(e.Body, &answer) != nil {
		return nil
	}
	if answer.Error.Details != nil {
		return answer.Error.Details
	}
	return answer.Details
}

// faults collects what is wrong with a document.
type faults []Fault

func (f *faults) add(pointer, code, format string, args ...any) {
	*f = append(*f, Fault{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
}

// text reports a text that JSON could not carry as it is.
func (f *faults) text(pointer, text string) {
	if validateText("", text) != nil {
		f.add(pointer, "encoding", "must be valid UTF-8")
	}
}

// err is nil when nothing is wrong.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &ValidationError{Faults: f}
}
