// Package dispatch decides when to send what. It takes due operations from an outbox engine, sends each
// through package wire, and settles what came of it; lane order, claims and exposure marks are the
// engine's, the meaning of an answer is wire's, and what a call wishes for is the [Policy]'s.
//
// One dispatcher serves one engine and any number of connections. It runs one loop and at most
// Config.Concurrency attempts; Close ends and joins all of them.
//
// A connection is in one of three conditions:
//
//	online ──never-sent failure, or failures on two lanes──► offline
//	online ──the token is refused, after one refresh───────► unauthorized
//	offline, unauthorized ──an authored answer to a probe──► online, one request at a time at first
//
// While a connection is not online nothing of it is claimed, so nothing is marked as possibly sent: after
// three days offline every operation that was never sent is still known to be so.
package dispatch
