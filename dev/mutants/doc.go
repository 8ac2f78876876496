// Package mutants holds servers that are wrong on purpose: a mock server with one clause of the contract
// broken, each in a way that real servers have been seen to be broken. The conformance suite must catch
// every one by the clause it breaks; a suite that lets one pass proves nothing.
package mutants
