// Package flavoso is the SDK for Flavoso, the restaurant-ordering platform, for software that runs on
// tills and behind them. It keeps one promise: an operation handed to it is never lost and never done
// twice, through timeouts, crashes, power cuts, days offline and bad proxies.
//
// # Writes
//
// Every write method returns a [Call]: one logical operation, whose idempotency key and exact bytes are
// fixed when it is made (F11). [Call.Do] saves it to the outbox, sends it, and waits for its outcome;
// [Call.Enqueue] returns as soon as it is durable. From then on it goes on by itself, whatever becomes of
// the caller, the network or the process: [Open] takes up what an earlier process left.
//
//	client, err := flavoso.Open(flavoso.Config{
//		Connection: "store-42",
//		Token:      flavoso.StaticToken(token),
//		OutboxPath: "pos.outbox",
//	})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	order, err := client.Orders.Accept(orderID, flavoso.AcceptParams{PreparationMinutes: 20}).Do(ctx)
//	switch flavoso.FateOf(err) {
//	case flavoso.FateDone:    // err == nil: done exactly once. err != nil: done, but read err
//	case flavoso.FateUnknown: // not known yet; saved and being taken care of, or parked
//	case flavoso.FateRefused: // Flavoso decided against it
//	case flavoso.FateNotSent: // nothing happened and nothing will
//	}
//
// # What happens to an operation
//
//	        save                send               answer
//	Call ─────────► queued ─────────► sent ────────────────► succeeded
//	                  │  ▲             │ ▲ │                  rejected
//	 Cancel, expiry,  │  └─────────────┘ └─┘
//	 a newer write    │  provably not    retry: same key,     uncertain ──┐ Resolve,
//	                  ▼  sent after all  same bytes           blocked   ──┤ ResumeLane
//	           canceled, expired,                             damaged   ──┘
//	           superseded
//
// Queued is provably never sent. Sent means that it may have reached Flavoso; that mark is on stable
// storage before the first byte leaves. Nothing but a verdict of Flavoso, or a person's decision, ends what
// may have been sent:
//
//   - A lost answer, a 5xx, a 429, a proxy's page or a dead connection is retried with full-jitter delays and
//     without end, with the same key and the same bytes. A 409 idempotency_in_progress is retried, too (F8).
//   - A booking, which would double after an answer that Flavoso does not hold (F10), is looked for by its
//     reference before it is sent again.
//   - Flavoso remembers a key for 24 hours (F5). Past that, orders and bookings are read before anything is
//     repeated, target states are simply set (F15), and what cannot be decided becomes uncertain: parked,
//     shown, and never repeated by itself.
//   - An answer that may show the past, a replay (F6), is followed by a read, and the present is returned.
//
// # Lanes
//
// Operations on the same order, booking, menu or store go one at a time, in the order they were saved;
// different lanes go in parallel, up to Config.Concurrency. A parked operation holds its lane, visibly, and
// no other.
//
// # Offline
//
// While Flavoso cannot be reached nothing is sent but an occasional probe, so that nothing is marked as
// possibly sent. After three days offline every operation that was never sent is known to be so, and is
// sent on day four. [Client.Status] says what waits and since when; [Client.Wake] says that the network is
// back; [Client.Flush] waits until nothing waits any more.
//
// # Afterwards
//
// Outcomes outlive processes: Config.OnOutcome is called for each at least once, [Attach] takes up an
// operation by its id, doing the same thing again finds the operation that stands for it, and
// [Client.Operations] lists them all. [ListenInspect] shows them to an operator while the till runs, with the
// command flavoso outbox.
//
// # Units, defaults, goroutines
//
// Durations are time.Duration, times are instants (sent in UTC), money is minor units of a currency, taxes are basis points,
// sizes are bytes. Of [Config] three fields are required: Connection, Token, and OutboxPath or Outbox. The zero value of every other
// is a default that its comment names: a wait without a deadline ends after 30 s, an attempt after 30 s, eight attempts are
// under way at once, finished operations are kept for 7 days. A [Client] and its services, a [Call], a [Pending] and a [Fleet] may be used by many
// goroutines; what the application gives (a [TokenSource], a [RetryPolicy], [Hooks]) is called by many.
//
// # Errors
//
// [FateOf] turns every error into one of four fates. Beneath it, errors.Is finds the umbrellas [ErrUnknown] and [ErrNotSaved] and the other
// sentinels, errors.As the types: *[PendingError] and *[UncertainError] (not known), *[APIError] (refused), *[UnexpectedStateError] and
// *[DecodeError] (done, but look), *[ParamError], *[KeyReusedError] and *[NotSavedError] (nothing was saved), *[SaveError] (whether it was
// saved is not known: do the same call again), *[SupersededError], [ErrExpired] and [ErrOperationCanceled] (never sent), *[ReadError] (a read
// gave up). No error and no log line holds a token.
//
// # Many connections
//
// [OpenFleet] sends for many restaurants from one outbox, by any number of processes where the outbox is in PostgreSQL (the module
// postgres); [Call.EnqueueTx] then saves an operation in the application's own transaction.
//
// # Names
//
// Clause numbers such as F6 are those of the contract that docs/contract.md restates: F is what Flavoso
// documents, S what a server needs, W the failure windows, D what both leave open.
package flavoso
