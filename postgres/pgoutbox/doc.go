// Package pgoutbox keeps an outbox in PostgreSQL (13 or newer), for a fleet of workers.
package pgoutbox
