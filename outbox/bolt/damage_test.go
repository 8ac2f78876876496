package bolt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// sample is an outbox with records in every state, and what was in it.
type sample struct {
	file, mark []byte
	records    map[string]outbox.Record
	lastSeq    uint64
}

// fastDir is a directory whose syncs cost nothing where the system has one: what is tested with it is what
// is read, not what survives.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "outbox")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func makeSample(t testing.TB, n int) sample {
	t.Helper()
	path := filepath.Join(fastDir(t), "pos.outbox")
	e := open(t, path, bolt.Options{})
	for i := range n {
		a := addition(fmt.Sprintf("op-%03d", i))
		a.Record.Lane = fmt.Sprintf("lane-%d", i%7)
		if i%5 == 0 {
			a.Record.Key = ""
		}
		a.Record.RepeatSafe = i%3 != 0
		a.Record.Request.Body = bytes.Repeat([]byte(fmt.Sprintf(`{"order":%d}`, i)), 1+i%40)
		_, err := e.Add(ctx, a)
		require.NoError(t, err)
	}
	to := []outbox.State{outbox.Succeeded, outbox.Rejected, outbox.Queued, outbox.Uncertain}
	for round := range 6 {
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 7})
		require.NoError(t, err)
		var ss []outbox.Settlement
		for i, r := range claimed {
			s := outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: now, To: to[min(round, 2)], Result: &outbox.Result{Status: 200, Body: []byte(`{"object":"order"}`)}}
			if round == 5 && i < 2 {
				s.To = to[3]
			}
			ss = append(ss, s)
		}
		_, err = e.Settle(ctx, ss...)
		require.NoError(t, err)
	}
	require.NoError(t, e.Ack(ctx, "op-000", 1))
	_, err := e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(time.Hour)})
	require.NoError(t, err)
	require.NoError(t, e.SaveState(ctx, "store-1", "cursor", []byte("cursor-1")))
	s := sample{records: map[string]outbox.Record{}}
	p, err := e.List(ctx, outbox.Query{Limit: 1000, Bodies: true})
	require.NoError(t, err)
	for _, r := range p.Records {
		r.Claim = outbox.Claim{}
		s.records[r.ID] = r
		s.lastSeq = max(s.lastSeq, r.Seq)
	}
	require.NoError(t, e.Close())
	s.file, err = os.ReadFile(path)
	require.NoError(t, err)
	s.mark, err = os.ReadFile(path + ".mark")
	require.NoError(t, err)
	return s
}

// openDamaged opens a damaged version of the sample and checks what holds whatever the damage was: the
// process lives, nothing is silently gone, no bytes are altered, and what was over is not sent again.
func (s *sample) openDamaged(t *testing.T, dir, what string, file []byte, o bolt.Options) (whole int) {
	t.Helper()
	path := filepath.Join(dir, "pos.outbox")
	for _, old := range []string{"", ".damaged-1", ".damaged-2"} {
		_ = os.Remove(path + old)
	}
	require.NoError(t, os.WriteFile(path, file, 0o600))
	require.NoError(t, os.WriteFile(path+".mark", s.mark, 0o600))
	e, err := bolt.Open(path, o)
	if err != nil {
		require.ErrorIs(t, err, outbox.ErrDamaged, what)
		kept, rerr := os.ReadFile(path)
		require.NoError(t, rerr)
		require.Equal(t, file, kept, "%s: what cannot be opened is left as it is", what)
		return 0
	}
	defer func() { require.NoError(t, e.Close(), what) }()

	var p outbox.Page
	var c outbox.Counts
	for met := -1; met != len(e.Reports()); { // damage may be met between two readings
		met = len(e.Reports())
		p, err = e.List(ctx, outbox.Query{Limit: 1000, Bodies: true})
		require.NoError(t, err, what)
		c, err = e.Counts(ctx, "")
		require.NoError(t, err, what)
	}
	sum := map[outbox.State]int{}
	damaged, extra := 0, 0
	bySeq := map[uint64]bool{}
	for _, r := range s.records {
		bySeq[r.Seq] = true
	}
	seen := map[uint64]bool{}
	for _, r := range p.Records {
		require.NoError(t, r.Check(), what)
		sum[r.State]++
		seen[r.Seq] = true
		if !bySeq[r.Seq] {
			extra++ // purged, and found again in a page given back
		}
		if r.State == outbox.Damaged {
			damaged++
			continue
		}
		old, ok := s.records[r.ID]
		if !ok {
			continue // purged before; allowed only as what it was: over
		}
		if len(r.Request.Body) > 0 || r.Unfinished() {
			require.Equal(t, old.Request, r.Request, "%s: %s: the bytes are what they were", what, r.ID)
			require.Equal(t, old.WireKey, r.WireKey, "%s: %s", what, r.ID)
		}
		if old.State.Final() {
			require.Equal(t, old.State, r.State, "%s: %s was over", what, r.ID)
		}
		whole++
	}
	lost := 0
	for _, r := range s.records {
		if !seen[r.Seq] {
			lost++
		}
	}
	reports := e.Reports()
	reported, unknown := 0, false
	for _, r := range reports {
		reported += max(r.Lost, 0)
		unknown = unknown || r.Lost < 0
		if r.Aside != "" {
			kept, err := os.ReadFile(r.Aside)
			require.NoError(t, err, what)
			require.Equal(t, file, kept[:len(file)], "%s: the damaged file is kept", what)
		}
	}
	require.True(t, lost <= reported+extra || unknown, "%s: %d records are gone, %d are reported: %+v", what, lost, reported, reports)
	require.True(t, damaged == 0 || len(reports) > 0, "%s: damaged records without a report", what)

	require.Equal(t, sum, c.States, "%s: the counts are those of the records", what)
	require.GreaterOrEqual(t, c.LastSeq, s.lastSeq*uint64(min(1, whole)), "%s: no number is given twice", what)

	// It works: a new operation is accepted and every lane that waits can be claimed, bytes unchanged.
	_, err = e.Add(ctx, addition("new"))
	require.NoError(t, err, what)
	claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now.Add(time.Hour)}, Limit: 100})
	require.NoError(t, err, what)
	for _, r := range claimed {
		if old, ok := s.records[r.ID]; ok {
			require.Equal(t, old.Request, r.Request, "%s: sent as it was accepted", what)
			require.False(t, old.State.Final(), "%s: %s was over and is sent again", what, r.ID)
		}
	}
	return whole
}

func TestATruncatedFileIsSalvagedAtEveryPageBoundary(t *testing.T) {
	s := makeSample(t, 120)
	dir := fastDir(t)
	page := os.Getpagesize()
	for size := page; size < len(s.file); size += page {
		for _, cut := range []int{size, size - 1, size + 100} {
			s.openDamaged(t, dir, fmt.Sprintf("cut to %d of %d bytes", cut, len(s.file)), s.file[:cut], bolt.Options{})
		}
	}
}

func TestZeroedPagesAreSalvaged(t *testing.T) {
	s := makeSample(t, 120)
	dir := fastDir(t)
	page := os.Getpagesize()
	for at := 0; at+page <= len(s.file); at += page {
		file := bytes.Clone(s.file)
		clear(file[at : at+page])
		s.openDamaged(t, dir, fmt.Sprintf("page %d of zeros", at/page), file, bolt.Options{})
		copy(file[at:], bytes.Repeat([]byte{0x5a}, page))
		s.openDamaged(t, dir, fmt.Sprintf("page %d of 0x5a", at/page), file, bolt.Options{})
	}
}

func TestAZeroedOrForeignTailChangesNothing(t *testing.T) {
	s := makeSample(t, 60)
	dir := fastDir(t)
	for name, tail := range map[string][]byte{
		"8 zeros": make([]byte, 8), "a page of zeros": make([]byte, 4096), "a page of 0xff": bytes.Repeat([]byte{0xff}, 4096),
		"its own last page again": s.file[len(s.file)-4096:],
	} {
		whole := s.openDamaged(t, dir, name, append(bytes.Clone(s.file), tail...), bolt.Options{})
		require.Equal(t, len(s.records), whole, name)
	}
}

func TestOneDamagedMetaPageLosesNothing(t *testing.T) {
	s := makeSample(t, 60)
	dir := fastDir(t)
	for meta := range 2 {
		file := bytes.Clone(s.file)
		clear(file[meta*4096 : meta*4096+4096])
		whole := s.openDamaged(t, dir, fmt.Sprintf("meta page %d", meta), file, bolt.Options{})
		require.GreaterOrEqual(t, whole, len(s.records)-1, "the older root is one commit behind")
	}
}

func TestAFlippedByteAnywhereIsSalvaged(t *testing.T) {
	s := makeSample(t, 60)
	dir := fastDir(t)
	step := 499
	if testing.Short() {
		step = 997
	}
	r := rand.New(rand.NewPCG(1, 2))
	for page := 0; page < len(s.file); page += 4096 {
		if allZero(s.file[page : page+4096]) {
			continue
		}
		// Every byte of the page's head and first elements, and a sample of the rest.
		for at := 0; at < 4096; at++ {
			if (at >= 20 || at%2 == 1) && (at+page)%step != 0 || testing.Short() && at%16 != 0 {
				continue
			}
			file := bytes.Clone(s.file)
			file[page+at] ^= 1 << r.IntN(8)
			s.openDamaged(t, dir, fmt.Sprintf("byte %d of page %d flipped", at, page/4096), file, bolt.Options{})
		}
	}
}

// The same in a file too big to be looked through at opening: damage is met later, while it is in use.
func TestAFlippedByteIsSalvagedWhenItIsMet(t *testing.T) {
	s := makeSample(t, 60)
	dir := fastDir(t)
	var o bolt.Options
	bolt.CheckNothingAtOpen(&o)
	r := rand.New(rand.NewPCG(3, 4))
	n := 120
	if testing.Short() {
		n = 30
	}
	for range n {
		file := bytes.Clone(s.file)
		at := r.IntN(len(file))
		if page := file[at/4096*4096:]; at%4096 < 16 || page[8] != 2 {
			continue // what holds the pages together must be found first: see the next test
		}
		file[at] ^= 1 << r.IntN(8)
		s.openDamaged(t, dir, fmt.Sprintf("byte %d flipped", at), file, o)
	}
}

// And what must be found before bbolt meets it, by the check in the background.
func TestAFlippedByteInAPageHeadIsFoundInTheBackground(t *testing.T) {
	s := makeSample(t, 60)
	var o bolt.Options
	bolt.CheckNothingAtOpen(&o)
	found := 0
	for page := 2; page < len(s.file)/4096; page++ {
		if s.file[page*4096+8] == 0 || page%3 != 0 {
			continue
		}
		for at := range 16 {
			file := bytes.Clone(s.file)
			file[page*4096+at] ^= 1 << (at % 8)
			path := filepath.Join(fastDir(t), "pos.outbox")
			require.NoError(t, os.WriteFile(path, file, 0o600))
			require.NoError(t, os.WriteFile(path+".mark", s.mark, 0o600))
			e := open(t, path, o)
			e.WaitForCheck()
			found += len(e.Reports())
			add(t, e, "new")
			p, err := e.List(ctx, outbox.Query{Limit: 1000})
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(p.Records), len(s.records)/2, "byte %d of page %d", at, page)
			require.NoError(t, e.Close())
		}
	}
	require.Positive(t, found)
}

func TestACircleOfPagesIsFoundInTheBackground(t *testing.T) {
	s := makeSample(t, 400)
	found := 0
	for page := 2; page < len(s.file)/4096; page++ {
		file := bytes.Clone(s.file)
		b := file[page*4096:]
		if binary.LittleEndian.Uint16(b[8:]) != 1 || binary.LittleEndian.Uint64(b) != uint64(page) {
			continue
		}
		last := int(binary.LittleEndian.Uint16(b[10:])) - 1
		binary.LittleEndian.PutUint64(b[16+16*last+8:], uint64(page)) // a branch page that leads to itself
		path := filepath.Join(fastDir(t), "pos.outbox")
		require.NoError(t, os.WriteFile(path, file, 0o600))
		require.NoError(t, os.WriteFile(path+".mark", s.mark, 0o600))
		var o bolt.Options
		bolt.CheckNothingAtOpen(&o)
		e := open(t, path, o)
		e.WaitForCheck()
		found += len(e.Reports())
		p, err := e.List(ctx, outbox.Query{Limit: 1000})
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(p.Records), len(s.records)*9/10)
		require.NoError(t, e.Close())
	}
	require.Positive(t, found, "some branch pages were in use")
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

func TestAnEmptiedOrMissingFileIsNotANewOutbox(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pos.outbox")
			e := open(t, path, bolt.Options{})
			add(t, e, "a")
			require.NoError(t, e.Close())
			require.NoError(t, spoil(path))
			_, err := bolt.Open(path, bolt.Options{})
			require.ErrorIs(t, err, outbox.ErrDamaged)
			require.ErrorContains(t, err, "operations were saved in it")
			_, err = bolt.Open(path, bolt.Options{})
			require.ErrorIs(t, err, outbox.ErrDamaged, "asking twice does not change the answer")
			e = open(t, path, bolt.Options{StartFresh: true})
			require.Len(t, e.Reports(), 1)
			require.Empty(t, states(t, e))
			require.NoError(t, e.Close())
			e = open(t, path, bolt.Options{})
			require.Empty(t, e.Reports(), "it is the new outbox's place now")
		})
	}
}

func TestAnUnusedOutboxMayGoMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	require.NoError(t, open(t, path, bolt.Options{}).Close())
	require.NoError(t, os.Remove(path))
	require.NoError(t, open(t, path, bolt.Options{}).Close(), "nothing was ever saved in it")
	require.NoError(t, os.WriteFile(path+".other", nil, 0o600))
	require.NoError(t, open(t, path+".other", bolt.Options{}).Close(), "an empty file where no outbox ever was")
}

func TestGarbageIsRefusedAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	for _, garbage := range [][]byte{{1}, bytes.Repeat([]byte{0}, 4096), bytes.Repeat([]byte{0}, 32768), []byte("#!/bin/sh\necho hello\n"), bytes.Repeat([]byte("x"), 100000)} {
		require.NoError(t, os.WriteFile(path, garbage, 0o600))
		_, err := bolt.Open(path, bolt.Options{})
		require.ErrorIs(t, err, outbox.ErrDamaged)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, garbage, kept)
	}
}

func TestARestoredOrCopiedFileCountsAsSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e := open(t, path, bolt.Options{})
	add(t, e, "a")
	require.NoError(t, e.Close())
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	e = open(t, path, bolt.Options{})
	require.Empty(t, e.Reports())
	add(t, e, "b")
	require.NoError(t, e.Close())

	check := func(t *testing.T, path, cause string) {
		e := open(t, path, bolt.Options{})
		require.Len(t, e.Reports(), 1)
		require.Contains(t, e.Reports()[0].Cause, cause)
		require.Equal(t, 1, e.Reports()[0].Suspect)
		require.Equal(t, map[outbox.State]int{outbox.Sent: 1}, states(t, e))
		r, err := e.Get(ctx, "a")
		require.NoError(t, err)
		require.True(t, r.Suspect)
		require.NoError(t, r.Check())
		require.Equal(t, r.Created, r.Exposure.At, "counts as sent since it was accepted")
		_, err = e.Set(ctx, outbox.Change{ID: "a", Action: outbox.Cancel, Now: now})
		require.ErrorIs(t, err, outbox.ErrState, "nobody can say that it was never sent")
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1})
		require.NoError(t, err)
		require.True(t, claimed[0].Suspect)
		_, err = e.Settle(ctx, outbox.Settlement{ID: "a", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Succeeded})
		require.NoError(t, err)
		require.Equal(t, map[outbox.State]int{outbox.Succeeded: 1}, states(t, e))
		require.NoError(t, e.Close())
		e = open(t, path, bolt.Options{})
		require.Empty(t, e.Reports(), "it is said once")
		add(t, e, "c")
		require.Equal(t, 1, states(t, e)[outbox.Queued], "new records are not suspect")
	}
	t.Run("older than its mark", func(t *testing.T) {
		require.NoError(t, os.WriteFile(path, old, 0o600))
		check(t, path, "restored")
	})
	t.Run("without its mark", func(t *testing.T) {
		copied := filepath.Join(t.TempDir(), "copy.outbox")
		require.NoError(t, os.WriteFile(copied, old, 0o600))
		check(t, copied, "copy")
	})
	t.Run("with another outbox's mark", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "other.outbox")
		o := open(t, other, bolt.Options{})
		add(t, o, "x")
		require.NoError(t, o.Close())
		require.NoError(t, os.WriteFile(other, old, 0o600))
		check(t, other, "another outbox's")
	})
	t.Run("adopted", func(t *testing.T) {
		image := filepath.Join(t.TempDir(), "image.outbox")
		o := open(t, image, bolt.Options{})
		add(t, o, "x")
		require.NoError(t, o.Close())
		r, err := bolt.Adopt(image, bolt.Options{})
		require.NoError(t, err)
		require.Equal(t, 1, r.Suspect)
		o = open(t, image, bolt.Options{})
		got, err := o.Get(ctx, "x")
		require.NoError(t, err)
		require.True(t, got.Suspect)
	})
}
