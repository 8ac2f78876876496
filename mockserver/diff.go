package mockserver

import "fmt"

// difference says how two requests differ in what F7 compares; "" when they are the same.
func difference(a, b *Request) string {
	who := fmt.Sprintf("request %d and request %d", a.Seq, b.Seq)
	switch {
	case a.Method != b.Method:
		return fmt.Sprintf("%s: method %s, then %s", who, a.Method, b.Method)
	case a.Target != b.Target:
		return fmt.Sprintf("%s: target %s, then %s", who, a.Target, b.Target)
	}
	if d := byteDiff(a.Body, b.Body); d != "" {
		return who + ": " + d
	}
	return ""
}

// byteDiff shows where two bodies part: the position and some bytes around it, in both.
func byteDiff(a, b []byte) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n == len(a) && n == len(b) {
		return ""
	}
	return fmt.Sprintf("the bodies part at byte %d (%d and %d bytes long)\n    first: %s\n    then:  %s",
		n, len(a), len(b), around(a, n), around(b, n))
}

// around quotes the bytes near position n, with a mark in front of n.
func around(p []byte, n int) string {
	const before, after = 24, 32
	from, to := max(0, n-before), min(len(p), n+after)
	out := fmt.Sprintf("%q", p[from:n])
	rest := fmt.Sprintf("%q", p[n:to])
	if from > 0 {
		out = "…" + out
	}
	if to < len(p) {
		rest += "…"
	}
	return out + " ▶ " + rest
}
