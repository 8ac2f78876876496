// Package inspect is what a running client and the operator's tool have in common: the stable JSON form of
// operations and of an outbox's state, the questions over HTTP, and how a decision becomes a change.
package inspect
