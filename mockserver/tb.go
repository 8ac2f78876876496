package mockserver

// TB is the part of testing.TB the server needs to report to a test. *testing.T, *testing.B and
// *testing.F have it, and so have the test types of other frameworks.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Cleanup(func())
}
