package pgidem

import (
	"context"

	"github.com/flavoso/flavoso-go/postgres/internal/migrate"
)

// ErrNewer says that the tables were made by a newer release of this package. Migrate changed nothing.
var ErrNewer = migrate.ErrNewer

// Migrate makes the tables, or brings them to this release's version. It is idempotent, keeps what is
// there, and may be run by many processes at once.
func Migrate(ctx context.Context, db migrate.Beginner, opts ...Option) error {
	schema := newConfig(opts).schema
	fill := names(schema)
	filled := make([]string, len(steps))
	for i, step := range steps {
		filled[i] = fill.Replace(step)
	}
	return migrate.Run(ctx, db, schema, "pgidem", filled)
}

// steps are the versions of the schema; a published step never changes.
//
// The table has exactly one unique index: with a second, an upsert can deadlock. The two partial indexes serve
// the sweep and Stats; running records are only in the one, finished ones only in the other. The claim function has its
// version in its name, so that an older release goes on while a newer one has been migrated.
var steps = []string{`
CREATE SEQUENCE flavoso_idempotency_generation AS bigint CACHE 1;
CREATE TABLE flavoso_idempotency (
	id           bytea       NOT NULL PRIMARY KEY,
	owner        bytea,
	generation   bigint      NOT NULL,
	retention_us bigint      NOT NULL,
	created_at   timestamptz NOT NULL,
	lease_until  timestamptz NOT NULL,
	finished_at  timestamptz,
	expires_at   timestamptz,
	state        smallint    NOT NULL,
	policy       smallint    NOT NULL,
	hold_from    smallint    NOT NULL,
	status       smallint    NOT NULL DEFAULT 0,
	effect       boolean     NOT NULL DEFAULT false,
	fingerprint  bytea       NOT NULL,
	tenant       text        NOT NULL,
	operation    text        NOT NULL,
	key          text        NOT NULL,
	note         text        NOT NULL DEFAULT '',
	result       bytea
);
COMMENT ON COLUMN flavoso_idempotency.state IS '1 processing, 2 completed, 3 failed, 4 uncertain';
CREATE INDEX flavoso_idempotency_open ON flavoso_idempotency (state, created_at) WHERE state IN (1, 4);
CREATE INDEX flavoso_idempotency_expiry ON flavoso_idempotency (expires_at) WHERE state IN (2, 3);
` + claimFunction}
