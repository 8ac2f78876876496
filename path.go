package flavoso

import (
	"net/url"
	"strings"
)

// Path joins segments to a path relative to the base URL, each escaped: Path("orders", id, "print") is
// one segment below /orders whatever id holds. The segments "." and ".." are escaped too. No id can
// change the path, but an empty one leaves nothing to name: check ids that come from outside.
func Path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		switch s {
		case ".", "..":
			// url.PathEscape leaves them as they are, and they would be resolved on the way.
			b.WriteString(strings.ReplaceAll(s, ".", "%2E"))
		default:
			b.WriteString(url.PathEscape(s))
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// maxID is far above any real id and keeps targets and keys in bounds.
const maxID = 255

// validateID refuses ids that are empty or hold what no id holds and what routers, proxies and logs could
// take for something else: slashes, escapes, queries, spaces, dots alone.
func validateID(field, id string) error {
	switch {
	case id == "":
		return &ParamError{Field: field, Rule: "must not be empty"}
	case len(id) > maxID:
		return &ParamError{Field: field, Rule: "must be at most 255 characters"}
	case id == "." || id == "..":
		return &ParamError{Field: field, Rule: "must be an id, not a path"}
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~:@=+,!$*", c) >= 0:
		default:
			return &ParamError{Field: field, Rule: "must hold letters, digits and -._~:@=+,!$* only"}
		}
	}
	return nil
}
