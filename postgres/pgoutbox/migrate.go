package pgoutbox

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/flavoso/flavoso-go/postgres/internal/migrate"
)

// ErrNewer says that the tables were made by a newer release of this package. Migrate changed nothing.
var ErrNewer = migrate.ErrNewer

// Migrate makes the tables, or brings them to this release's version. It is idempotent, keeps what is
// there, and may be run by many processes at once. Of the options only Schema counts.
func Migrate(ctx context.Context, db migrate.Beginner, o ...Options) error {
	schema := ""
	for _, opt := range o {
		schema = opt.Schema
	}
	return migrate.Run(ctx, db, schema, "pgoutbox", steps)
}

// names fills in the names of what Migrate has made.
func names(schema string) *strings.Replacer {
	prefix := ""
	if schema != "" {
		prefix = pgx.Identifier{schema}.Sanitize() + "."
	}
	inLiteral := strings.ReplaceAll(prefix, "'", "''")
	return strings.NewReplacer(
		"{operation}", prefix+"flavoso_outbox_operation", "{progress}", prefix+"flavoso_outbox_progress",
		"{lane}", prefix+"flavoso_outbox_lane", "{hold}", prefix+"flavoso_outbox_hold", "{key}", prefix+"flavoso_outbox_key",
		"{count}", prefix+"flavoso_outbox_count", "{state}", prefix+"flavoso_outbox_state",
		"{seq}", "'"+inLiteral+"flavoso_outbox_seq'", "{outcome}", "'"+inLiteral+"flavoso_outbox_outcome'",
		"{seq_table}", prefix+"flavoso_outbox_seq", "{outcome_table}", prefix+"flavoso_outbox_outcome",
		"{open}", "('queued', 'sent', 'uncertain', 'blocked', 'damaged')")
}

// lanes is how many lane locks there are; see the package's documentation.
const lanes = 1 << 16

// steps are the versions of the schema; a published step never changes.
//
// What was accepted is written once (operation); what changes is small and apart (progress), so that a claim or a
// result does not write the request again. Every index of progress but the first is partial. All generations are above 0:
// that condition keeps the indexes over all that is open away from statements that ask for one lane.
var steps = []string{`
CREATE SEQUENCE flavoso_outbox_seq AS bigint CACHE 1;
CREATE SEQUENCE flavoso_outbox_outcome AS bigint CACHE 1;

CREATE TABLE flavoso_outbox_operation (
	seq          bigint      NOT NULL PRIMARY KEY,
	id           text        COLLATE "C" NOT NULL UNIQUE,
	connection   text        COLLATE "C" NOT NULL,
	lane         text        COLLATE "C" NOT NULL,
	lock         integer     NOT NULL,
	kind         text        COLLATE "C" NOT NULL,
	resource     text        COLLATE "C" NOT NULL,
	key          text        COLLATE "C" NOT NULL,
	latest       boolean     NOT NULL,
	key_derived  boolean     NOT NULL,
	fingerprint  bytea,
	repeat_safe  boolean     NOT NULL,
	stop_lane    boolean     NOT NULL,
	tag          text        COLLATE "C" NOT NULL,
	created      timestamptz NOT NULL,
	expires      timestamptz,
	method       text        COLLATE "C" NOT NULL,
	target       text        COLLATE "C" NOT NULL,
	content_type text        COLLATE "C" NOT NULL,
	accept       text        COLLATE "C" NOT NULL,
	size         bigint      NOT NULL,
	body         bytea,
	sealed       bytea
);
COMMENT ON COLUMN flavoso_outbox_operation.latest IS 'the latest operation under its key';
CREATE UNIQUE INDEX flavoso_outbox_operation_key ON flavoso_outbox_operation (connection, key) WHERE latest;
CREATE INDEX flavoso_outbox_operation_key_before ON flavoso_outbox_operation (connection, key) WHERE NOT latest AND key <> '';

CREATE TABLE flavoso_outbox_progress (
	seq           bigint      NOT NULL PRIMARY KEY,
	connection    text        COLLATE "C" NOT NULL,
	lane          text        COLLATE "C" NOT NULL,
	state         text        COLLATE "C" NOT NULL,
	open          boolean     NOT NULL,
	head          boolean     NOT NULL,
	due           timestamptz NOT NULL,
	due_at        timestamptz,
	due_order     bigint      NOT NULL,
	lapse_at      timestamptz,
	expires       timestamptz,
	generation    integer     NOT NULL,
	attempts      integer     NOT NULL,
	suspect       boolean     NOT NULL,
	claim         text        COLLATE "C" NOT NULL,
	claim_at      timestamptz,
	claim_until   timestamptz,
	revision      integer     NOT NULL,
	acked         integer     NOT NULL,
	outcome       bigint      NOT NULL,
	finished      timestamptz,
	superseded_by text        COLLATE "C" NOT NULL,
	detail        json,
	body          bytea,
	stamp         bigint      NOT NULL
);
COMMENT ON COLUMN flavoso_outbox_progress.open IS 'stands in its lane: waiting or parked';
COMMENT ON COLUMN flavoso_outbox_progress.head IS 'first of its lane';
COMMENT ON COLUMN flavoso_outbox_progress.due_at IS 'when a lane can be claimed; on what is over: its lane is to be looked at';
COMMENT ON COLUMN flavoso_outbox_progress.lapse_at IS 'when a claim may be taken over, by the clock of the database';
COMMENT ON COLUMN flavoso_outbox_progress.stamp IS 'the step that wrote it last';
CREATE INDEX flavoso_outbox_progress_lane ON flavoso_outbox_progress (connection, lane, seq) WHERE open;
CREATE INDEX flavoso_outbox_progress_open ON flavoso_outbox_progress (connection, seq) WHERE open AND generation > 0;
CREATE INDEX flavoso_outbox_progress_due ON flavoso_outbox_progress (due_at, due_order) WHERE due_at IS NOT NULL;
CREATE INDEX flavoso_outbox_progress_due_of ON flavoso_outbox_progress (connection, due_at, due_order) WHERE due_at IS NOT NULL;
CREATE INDEX flavoso_outbox_progress_lapse ON flavoso_outbox_progress (lapse_at) WHERE lapse_at IS NOT NULL;
CREATE INDEX flavoso_outbox_progress_expires ON flavoso_outbox_progress (connection, expires) WHERE state = 'queued' AND expires IS NOT NULL;
CREATE INDEX flavoso_outbox_progress_unacked ON flavoso_outbox_progress (outcome) WHERE outcome > 0 AND acked < revision;
CREATE INDEX flavoso_outbox_progress_unacked_of ON flavoso_outbox_progress (connection, outcome) WHERE outcome > 0 AND acked < revision;
CREATE INDEX flavoso_outbox_progress_seen ON flavoso_outbox_progress (finished) WHERE NOT open AND acked >= revision;
CREATE INDEX flavoso_outbox_progress_unseen ON flavoso_outbox_progress (finished) WHERE NOT open AND acked < revision AND state <> 'rejected';

CREATE TABLE flavoso_outbox_lane AS SELECT generate_series(0, 65535) AS lock;
ALTER TABLE flavoso_outbox_lane ADD PRIMARY KEY (lock);
COMMENT ON TABLE flavoso_outbox_lane IS 'the locks of lanes: whoever adds to a lane holds its lock until the commit';

CREATE TABLE flavoso_outbox_hold (
	connection text        COLLATE "C" NOT NULL,
	lane       text        COLLATE "C" NOT NULL,
	until      timestamptz NOT NULL,
	PRIMARY KEY (connection, lane)
);
CREATE INDEX flavoso_outbox_hold_until ON flavoso_outbox_hold (until);

CREATE TABLE flavoso_outbox_key (
	connection  text        COLLATE "C" NOT NULL,
	key         text        COLLATE "C" NOT NULL,
	id          text        COLLATE "C" NOT NULL,
	generation  integer     NOT NULL,
	fingerprint bytea,
	state       text        COLLATE "C" NOT NULL,
	code        text        COLLATE "C" NOT NULL,
	clean       boolean     NOT NULL,
	repeat_safe boolean     NOT NULL,
	resource    text        COLLATE "C" NOT NULL,
	until       timestamptz NOT NULL,
	PRIMARY KEY (connection, key)
);
COMMENT ON TABLE flavoso_outbox_key IS 'tombstones: what stays known of a key when its operation is purged';
CREATE INDEX flavoso_outbox_key_until ON flavoso_outbox_key (until);

CREATE TABLE flavoso_outbox_count (
	connection text    COLLATE "C" NOT NULL,
	queued     bigint  NOT NULL,
	sent       bigint  NOT NULL,
	succeeded  bigint  NOT NULL,
	rejected   bigint  NOT NULL,
	expired    bigint  NOT NULL,
	canceled   bigint  NOT NULL,
	superseded bigint  NOT NULL,
	uncertain  bigint  NOT NULL,
	blocked    bigint  NOT NULL,
	damaged    bigint  NOT NULL,
	abandoned  bigint  NOT NULL,
	bytes      bigint  NOT NULL,
	held       bigint  NOT NULL,
	unacked    bigint  NOT NULL
);
COMMENT ON TABLE flavoso_outbox_count IS 'the sum of a connection''s rows is its totals; each step adds a row, and rows are merged now and then';
CREATE INDEX flavoso_outbox_count_connection ON flavoso_outbox_count (connection);

CREATE TABLE flavoso_outbox_state (
	connection text  COLLATE "C" NOT NULL,
	name       text  COLLATE "C" NOT NULL,
	value      bytea NOT NULL,
	PRIMARY KEY (connection, name)
);
`}
