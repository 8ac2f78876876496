package bolt

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// The buckets of the file. Keys hold strings in an order-preserving, self-terminating form (appendText)
// and numbers as eight bytes, big endian.
//
//	meta      "format"                      the file's format
//	          "header"                      identity and the counters that number things
//	          "counts" connection           totals of a connection; of all under ""
//	request   seq                           what was accepted, frozen: written once
//	live      connection seq                progress of waiting and parked records
//	done      seq                           progress of final records
//	body      seq                           bodies of results
//	lane      connection lane seq           unfinished records; the first of a lane is its head → state
//	hold      connection lane               holds back the next head of a lane → time
//	due       connection due dueSeq         lane heads that wait → seq
//	id        id                            → seq, connection
//	key       connection key                → seq of the key's latest record, or its tombstone
//	tombstone until connection key          tombstones in the order in which they end
//	outcome   outcomeSeq                    outcomes in the order in which they became known
//	unacked   outcomeSeq                    those that the application has not taken over
//	state     connection name               blobs of SaveState
var bucketNames = [bucketCount]string{
	bMeta: "meta", bRequest: "request", bLive: "live", bDone: "done", bBody: "body", bLane: "lane", bHold: "hold",
	bDue: "due", bID: "id", bKey: "key", bTombstone: "tombstone", bOutcome: "outcome", bUnacked: "unacked", bState: "state",
}

const (
	bMeta = iota
	bRequest
	bLive
	bDone
	bBody
	bLane
	bHold
	bDue
	bID
	bKey
	bTombstone
	bOutcome
	bUnacked
	bState
	bucketCount
)

// The letters that frames start with.
const (
	tagFormat    = 'F'
	tagHeader    = 'H'
	tagCounts    = 'C'
	tagRequest   = 'R'
	tagProgress  = 'P'
	tagBody      = 'B'
	tagLane      = 'L'
	tagHold      = 'O'
	tagDue       = 'D'
	tagID        = 'I'
	tagKey       = 'K'
	tagTombstone = 'T'
	tagOutcome   = 'N'
	tagState     = 'S'
)

// What a key entry starts with.
const (
	keyKept = 'k' // the record is kept: its seq follows
	keyGone = 'g' // only the tombstone is left
)

var (
	formatKey = []byte("format")
	headerKey = []byte("header")
)

func countsKey(connection string) []byte { return append([]byte("counts "), connection...) }

// maxText bounds identifiers, so that every index key fits bbolt's limit.
const maxText = 4096

func checkText(name, s string) error {
	if len(s) > maxText {
		return fmt.Errorf("outbox: %s is %d bytes long, at most %d are kept", name, len(s), maxText)
	}
	return nil
}

// appendText appends s so that byte order of keys is the order of the strings and no string's form is a
// prefix of another's.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		b = append(b, s[i])
		if s[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 1)
}

// afterText is greater than every key that starts with s, and not greater than any other that follows.
func afterText(s string) []byte {
	b := appendText(nil, s)
	b[len(b)-1]++
	return b
}

// cutText undoes appendText and returns what follows.
func cutText(b []byte) (s string, rest []byte, ok bool) {
	var out []byte
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			out = append(out, b[i])
			continue
		}
		i++
		if b[i] == 1 {
			return string(out), b[i+1:], true
		}
		out = append(out, 0)
	}
	return "", nil, false
}

func appendTime(b []byte, t time.Time) []byte {
	// Times before 1970 sort first; a sign-flipped nanosecond count keeps the order.
	return binary.BigEndian.AppendUint64(b, uint64(clampNano(t))^(1<<63))
}

// clampNano keeps times that do not fit 64 bits of nanoseconds (years 1678 to 2262) in order.
func clampNano(t time.Time) int64 {
	switch {
	case t.Year() < 1678:
		return -1 << 63
	case t.Year() > 2261:
		return 1<<63 - 1
	}
	return t.UnixNano()
}

func cutTime(b []byte) (time.Time, []byte, bool) {
	if len(b) < 8 {
		return time.Time{}, nil, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(b)^(1<<63))).UTC(), b[8:], true
}

func appendSeq(b []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(b, seq) }

func seqKey(seq uint64) []byte { return appendSeq(nil, seq) }

func lastSeq(key []byte) uint64 {
	if len(key) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key[len(key)-8:])
}

func liveKey(connection string, seq uint64) []byte {
	return appendSeq(appendText(nil, connection), seq)
}

func lanePrefix(connection, lane string) []byte { return appendText(appendText(nil, connection), lane) }

func laneKey(connection, lane string, seq uint64) []byte {
	return appendSeq(lanePrefix(connection, lane), seq)
}

func dueKey(connection string, due time.Time, dueSeq uint64) []byte {
	return appendSeq(appendTime(appendText(nil, connection), due), dueSeq)
}

func nameKey(connection, name string) []byte { return append(appendText(nil, connection), name...) }

// buckets are the open buckets of a transaction.
type buckets [bucketCount]*bbolt.Bucket

func openBuckets(tx *bbolt.Tx) (b buckets, err error) {
	for i, name := range bucketNames {
		if b[i] = tx.Bucket([]byte(name)); b[i] == nil {
			return b, fmt.Errorf("%w: bucket %q is missing", errNotOutbox, name)
		}
	}
	// Keys of these only grow: full pages instead of half-empty ones.
	for _, i := range []int{bRequest, bOutcome, bUnacked} {
		b[i].FillPercent = 0.9
	}
	return b, nil
}
