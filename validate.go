package flavoso

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Checks of parameters. They refuse what cannot be meant or cannot be sent; what Flavoso would refuse for
// reasons of its own is left to Flavoso, whose rules may change.

// validateReference checks a reference of the app's own, such as a booking number. It is sent in a body,
// so it may hold more than an id.
func validateReference(field, ref string) error {
	switch {
	case ref == "":
		return &ParamError{Field: field, Rule: "must not be empty"}
	case len(ref) > maxID:
		return &ParamError{Field: field, Rule: "must be at most 255 bytes"}
	case strings.TrimSpace(ref) != ref:
		return &ParamError{Field: field, Rule: "must not begin or end with white space"}
	case strings.ContainsFunc(ref, unicode.IsControl):
		return &ParamError{Field: field, Rule: "must not hold control characters"}
	}
	return validateText(field, ref)
}

// validateText: JSON would replace bytes that are not UTF-8, so that two texts became one.
func validateText(field, text string) error {
	if !utf8.ValidString(text) {
		return &ParamError{Field: field, Rule: "must be valid UTF-8"}
	}
	return nil
}

// validateTexts checks pairs of field and text.
func validateTexts(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if err := validateText(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// validateTime: RFC 3339 has four digits for the year. The zero time is 'not given'.
func validateTime(field string, t time.Time) error {
	if y := t.UTC().Year(); !t.IsZero() && (y < 1970 || y > 9999) {
		return &ParamError{Field: field, Rule: "must be a moment between the years 1970 and 9999"}
	}
	return nil
}

// validateCount checks a number that is optional with 0.
func validateCount(field string, n, most int) error {
	if n < 0 || n > most {
		return &ParamError{Field: field, Rule: fmt.Sprintf("must be 1 to %d, or 0 for none", most)}
	}
	return nil
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
