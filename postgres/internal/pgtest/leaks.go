package pgtest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"
)

// MainNoLeaks is Main for packages whose tests must leave no goroutine behind.
func MainNoLeaks(m interface{ Run() int }) int {
	code := Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
