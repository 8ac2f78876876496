package outbox

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"
)

// sealState is the name under which the data key is kept, for no connection.
const sealState = "outbox.seal"

// Seal returns an engine that keeps in e only what is encrypted (AES-256-GCM): requests and responses with
// their bodies, the text of errors and notes, resources, keys, lanes, tags, and the blobs of SaveState.
// What e needs to compare — keys, lanes, tags, targets, fingerprints — it sees as keyed hashes, so that
// not even a guess at a short body can be checked against the file.
//
// Still to be read: IDs, connections, kinds, methods, states, times, status and error codes, request ids,
// the names of state blobs, and how long things are.
//
// Keys are 32 bytes each. They protect a data key of the outbox's own: any of them opens it, and it is then kept under
// the first. To rotate, put the new key first; once the outbox was opened that way the old one is not needed any more.
//
// The data key is random. Where e is [Shared] it follows from the first key that the empty outbox was opened with: all
// processes begin with the same one, and rotating does not help when it leaks.
//
// An error that is [ErrSealed] says that no key fits, or that e already holds operations that are not sealed: sealing
// starts with an empty outbox.
//
// Closing the returned engine closes e. See [RequireUnsealed] for programs that have no keys.
func Seal(e Engine, keys ...[]byte) (Engine, error) {
	if len(keys) == 0 {
		return nil, errors.New("outbox: sealing needs a key of 32 bytes")
	}
	for i, k := range keys {
		if len(k) != 32 {
			return nil, fmt.Errorf("outbox: sealing key number %d is %d bytes long, not 32", i+1, len(k))
		}
	}
	ctx := context.Background()
	data, wrapped, err := openDataKey(ctx, e, keys)
	if err != nil {
		return nil, err
	}
	if wrapped != nil {
		if err := e.SaveState(ctx, "", sealState, wrapped); err != nil {
			return nil, fmt.Errorf("outbox: saving the data key: %w", err)
		}
	}
	content, err := newAEAD(data, "flavoso outbox content")
	if err != nil {
		return nil, err
	}
	index, err := hkdf.Key(sha256.New, data, nil, "flavoso outbox index", 32)
	if err != nil {
		return nil, err
	}
	return &sealed{Engine: e, aead: content, index: index}, nil
}

// RequireUnsealed returns [ErrSealed] when the engine holds operations that only [Seal] can open.
func RequireUnsealed(ctx context.Context, e Engine) error {
	if _, ok := e.(*sealed); ok {
		return nil
	}
	v, err := e.LoadState(ctx, "", sealState)
	if err == nil && v != nil {
		err = fmt.Errorf("%w: a key is needed to open it", ErrSealed)
	}
	return err
}

// openDataKey returns the outbox's data key, and its new form when that has to be saved.
func openDataKey(ctx context.Context, e Engine, keys [][]byte) (data, wrapped []byte, err error) {
	stored, err := e.LoadState(ctx, "", sealState)
	if err != nil {
		return nil, nil, err
	}
	if stored == nil {
		c, err := e.Counts(ctx, "")
		if err != nil {
			return nil, nil, err
		}
		if c.LastSeq == 0 {
			return newDataKey(e, keys[0])
		}
		// Another process may have sealed it and added to it since.
		if stored, err = e.LoadState(ctx, "", sealState); err != nil {
			return nil, nil, err
		}
	}
	if stored == nil {
		return nil, nil, fmt.Errorf("%w: it holds operations that are not sealed; sealing starts with an empty outbox", ErrSealed)
	}
	for i, k := range keys {
		aead, err := newAEAD(k, "flavoso outbox key")
		if err != nil {
			return nil, nil, err
		}
		data, err = aead.Open(nil, nil, stored, []byte(sealState))
		if err != nil {
			continue
		}
		if i > 0 {
			wrapped, err = wrap(keys[0], data)
		}
		return data, wrapped, err
	}
	return nil, nil, fmt.Errorf("%w: none of the %d given fits", ErrSealed, len(keys))
}

// newDataKey returns the data key of an empty outbox, and its form to be saved.
func newDataKey(e Engine, key []byte) (data, wrapped []byte, err error) {
	if Shared(e) {
		// Processes that open it at the same time must come to the same one, whoever saves it last.
		data, err = hkdf.Key(sha256.New, key, nil, "flavoso outbox data", 32)
	} else {
		data = make([]byte, 32)
		_, _ = rand.Read(data) // never fails
	}
	if err == nil {
		wrapped, err = wrap(key, data)
	}
	return data, wrapped, err
}

func wrap(key, data []byte) ([]byte, error) {
	aead, err := newAEAD(key, "flavoso outbox key")
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, data, []byte(sealState)), nil
}

// newAEAD derives a key for one purpose and returns AES-256-GCM with random nonces.
func newAEAD(secret []byte, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealed is the engine that Seal returns. Methods it does not change are those of the engine inside.
type sealed struct {
	Engine
	aead  cipher.AEAD
	index []byte

	mu         sync.Mutex
	unreadable []Settlement // claimed, not yet parked
}

// Format implements [fmt.Formatter]: no verb shows the keys.
func (s *sealed) Format(f fmt.State, _ rune) { io.WriteString(f, "sealed outbox") }

// hash stands for a value that the engine inside must compare; "" stays "".
func (s *sealed) hash(what, value string) string {
	if value == "" {
		return ""
	}
	m := hmac.New(sha256.New, s.index)
	m.Write([]byte(what))
	m.Write([]byte{0})
	m.Write([]byte(value))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// text encrypts a short text into text; what and id keep it from being put elsewhere.
func (s *sealed) text(what, id, value string) string {
	if value == "" {
		return ""
	}
	return base64.RawStdEncoding.EncodeToString(s.aead.Seal(nil, nil, []byte(value), []byte(what+"\x00"+id)))
}

func (s *sealed) openText(what, id, value string) (string, error) {
	if value == "" {
		return "", nil
	}
	b, err := base64.RawStdEncoding.DecodeString(value)
	if err == nil {
		b, err = s.aead.Open(nil, nil, b, []byte(what+"\x00"+id))
	}
	return string(b), err
}

// Add implements Engine.
func (s *sealed) Add(ctx context.Context, a Addition) (Added, error) {
	plain := a.Record
	inner, err := s.sealRecord(&plain)
	if err != nil {
		return Added{}, err
	}
	a.Record = *inner
	out, err := s.Engine.Add(ctx, a)
	if err != nil {
		return out, err
	}
	if out.Decision == FoundTombstone || out.Decision == FoundOtherUse && out.Record.Sealed == nil {
		t := &out.Tombstone
		t.Key, t.Fingerprint = plain.Key, nil // of other content only a hash is known
		if out.Decision == FoundTombstone {
			t.Fingerprint = cloneBytes(plain.Fingerprint)
		}
		if t.Resource, err = s.openText("resource", t.ID, t.Resource); err != nil {
			return out, fmt.Errorf("%w: tombstone of %s: %w", ErrDamaged, t.ID, err)
		}
		out.Record = t.Record()
		return out, nil
	}
	out.Record = s.open(out.Record)
	return out, nil
}

// Claim implements Engine. A record that cannot be opened is parked as damaged: nobody knows its bytes.
// When that fails the others are claimed all the same, and the next Claim parks it.
func (s *sealed) Claim(ctx context.Context, q ClaimRequest) ([]Record, error) {
	s.parkUnreadable(ctx)
	recs, err := s.Engine.Claim(ctx, q)
	if err != nil {
		return nil, err
	}
	out := recs[:0]
	for _, r := range recs {
		opened := s.open(r)
		if opened.State != Damaged {
			out = append(out, opened)
			continue
		}
		s.mu.Lock()
		s.unreadable = append(s.unreadable, Settlement{ID: r.ID, Claim: r.Claim.Token, Now: q.Now, To: Damaged, Result: &Result{Reason: "sealed"}})
		s.mu.Unlock()
	}
	s.parkUnreadable(ctx)
	return out, nil
}

// parkUnreadable parks what was claimed and could not be opened.
func (s *sealed) parkUnreadable(ctx context.Context) {
	s.mu.Lock()
	park := s.unreadable
	s.unreadable = nil
	s.mu.Unlock()
	if len(park) == 0 {
		return
	}
	if _, err := s.Engine.Settle(context.WithoutCancel(ctx), park...); err != nil {
		s.mu.Lock()
		s.unreadable = append(park, s.unreadable...)
		s.mu.Unlock()
	}
}

// Settle implements Engine.
func (s *sealed) Settle(ctx context.Context, ss ...Settlement) ([]Settled, error) {
	in := make([]Settlement, len(ss))
	for i, x := range ss {
		x.Result = s.sealResult(x.ID, x.Result)
		if x.Last != nil {
			last := *x.Last
			last.Err = s.text("error", x.ID, last.Err)
			x.Last = &last
		}
		in[i] = x
	}
	out, err := s.Engine.Settle(ctx, in...)
	for i := range out {
		if out[i].Record.ID != "" {
			out[i].Record = s.open(out[i].Record)
		}
	}
	return out, err
}

// Set implements Engine.
func (s *sealed) Set(ctx context.Context, c Change) (Record, error) {
	c.Result = s.sealResult(c.ID, c.Result)
	if c.Lane != "" {
		c.Lane = s.hash("lane", c.Lane)
	}
	r, err := s.Engine.Set(ctx, c)
	if r.ID != "" {
		r = s.open(r)
	}
	return r, err
}

// Get implements Engine.
func (s *sealed) Get(ctx context.Context, id string) (Record, error) {
	r, err := s.Engine.Get(ctx, id)
	if err != nil {
		return r, err
	}
	return s.open(r), nil
}

// List implements Engine.
func (s *sealed) List(ctx context.Context, q Query) (Page, error) {
	bodies := q.Bodies
	q.Bodies = true
	q.Lane, q.Tag, q.Key = s.hash("lane", q.Lane), s.hash("tag", q.Tag), s.hash("key", q.Key)
	p, err := s.Engine.List(ctx, q)
	for i := range p.Records {
		p.Records[i] = s.open(p.Records[i])
		if !bodies {
			p.Records[i].StripBodies()
		}
	}
	return p, err
}

// Reports says what the engine below says; see [Reports].
func (s *sealed) Reports() []Report { return Reports(s.Engine) }

// Shared says what the engine below says; see [Shared].
func (s *sealed) Shared() bool { return Shared(s.Engine) }

// LoadState implements Engine.
func (s *sealed) LoadState(ctx context.Context, connection, name string) ([]byte, error) {
	v, err := s.Engine.LoadState(ctx, connection, name)
	if err != nil || v == nil {
		return v, err
	}
	out, err := s.aead.Open([]byte{}, nil, v, stateLabel(connection, name))
	if err != nil {
		return nil, fmt.Errorf("%w: state %q: %w", ErrDamaged, name, err)
	}
	return out, nil
}

// SaveState implements Engine.
func (s *sealed) SaveState(ctx context.Context, connection, name string, value []byte) error {
	if value != nil {
		value = s.aead.Seal(nil, nil, value, stateLabel(connection, name))
	}
	return s.Engine.SaveState(ctx, connection, name, value)
}

func stateLabel(connection, name string) []byte {
	return []byte("state\x00" + connection + "\x00" + name)
}
