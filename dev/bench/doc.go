// Package bench holds the benchmarks that need more than one package, or other projects' queues: P3, P4 and P10.
// The others stand beside what they measure. Command report runs all of them and prints one table; README.md says
// what each compares and what came out.
package bench
