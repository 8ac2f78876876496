// Package fleettest has the end-to-end tests of a fleet on PostgreSQL: several processes' worth of fleets, one
// database, the mock server, and its ledger as the judge.
package fleettest
