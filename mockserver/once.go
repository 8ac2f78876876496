package mockserver

import (
	"net/http"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// The scheme bytes of this server's own fingerprints.
const (
	schemePathOnly = 16 + iota // the query does not count (D2)
	schemeHeaders              // claimed on the headers, the body never came (D14)
)

// livingClaim is the claim of a request that is being executed. It needs no heartbeat of its own: its
// lease is extended whenever somebody asks for the key, so that it never ends under a living request
// however far the clock is moved (D16).
type livingClaim struct {
	engine *idempotency.Memory
	claim  idempotency.Claim
}

// executeOnce is F4–F10: the key is claimed, then the operation runs at most once. early is a refusal
// that is held under the switch hold_4xx=all.
func (s *Server) executeOnce(x *exchange, early *problem, retry time.Duration) (reply, error) {
	ctx := x.detached()
	scope := x.scope()
	req := idempotency.ClaimRequest{
		Scope: scope, Fingerprint: s.fingerprint(x), Lease: s.Switches().AbortAfter, Retention: s.Switches().HoldFor,
		OnLeaseLost: idempotency.FreeKey, // F9: free again, for whatever request comes
	}
	if s.Switches().HoldFrom == "receipt" {
		req.HoldFrom = idempotency.FromReceipt
	}
	engine, res, err := s.claim(x, req)
	if err != nil {
		return s.problemReply(&problem{Code: codeUnavailable, Message: err.Error()}), nil
	}
	switch res.Decision {
	case idempotency.New, idempotency.TakenOver:
	case idempotency.Replay:
		return reply{status: res.Result.Status, header: res.Result.Header.Clone(), body: res.Result.Body, replayed: true}, nil
	case idempotency.Mismatch:
		if res.Record.State == idempotency.Processing && res.Record.Fingerprint == headersFingerprint(x) {
			return s.inProgress(), nil
		}
		return s.problemReply(&problem{Code: codeKeyReused, Message: "this key was used with another request"}), nil
	default:
		return s.inProgress(), nil
	}

	finished := false
	defer func() { // also when the operation panics
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.living[scope].claim.Owner == res.Claim.Owner { // the key may be another request's by now
			delete(s.living, scope)
		}
		if !finished {
			_ = engine.Release(ctx, res.Claim) // no longer the owner: then there is nothing to release
		}
	}()
	if crashed := s.inHandler(x); crashed {
		finished = true // the claim stays until its lease ends
		return reply{}, errCrashed
	}
	if early != nil {
		rep := s.earlyReply(early, retry)
		finished = s.settle(x, engine, res.Claim, rep) == nil
		return rep, nil
	}
	rep, err := s.run(x, func(rep reply) error {
		if x.plan.is(faultCrashAfter, "") {
			finished = true
			return errCrashed
		}
		err := s.settle(x, engine, res.Claim, rep)
		finished = err == nil
		return err
	})
	return rep, err
}

// claim asks for the right to execute. A living request gives its sign of life first.
func (s *Server) claim(x *exchange, req idempotency.ClaimRequest) (*idempotency.Memory, idempotency.ClaimResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.living[req.Scope]; ok && l.engine == s.engine {
		_, _ = l.engine.Extend(x.detached(), l.claim, req.Lease) // finished meanwhile: then there is nothing to extend
	}
	res, err := s.engine.Claim(x.detached(), req)
	if err == nil && (res.Decision == idempotency.New || res.Decision == idempotency.TakenOver) {
		s.living[req.Scope] = livingClaim{s.engine, res.Claim}
	}
	return s.engine, res, err
}

// inHandler carries out the faults that strike while the key is claimed; true = the process died.
func (s *Server) inHandler(x *exchange) (crashed bool) {
	if !s.wait(x.plan.inHandler) {
		return true
	}
	if x.plan.is(faultHang, StageInHandler) {
		<-s.done
		return true
	}
	return x.plan.is(faultCrashBefore, "")
}

// settle holds the answer, or frees the key when the answer is one that is not held (F10, D10).
func (s *Server) settle(x *exchange, engine *idempotency.Memory, claim idempotency.Claim, rep reply) error {
	if !s.held(rep) || (x.plan.is(faultStatusAfterCommit, "") && x.plan.act.NotHeld) {
		return engine.Release(x.detached(), claim)
	}
	return engine.Complete(x.detached(), claim, idempotency.Result{Status: rep.status, Header: rep.header, Body: rep.body})
}

// held says whether an answer is the operation's result.
func (s *Server) held(rep reply) bool {
	switch {
	case rep.status >= 500 || rep.status == http.StatusConflict: // F10
		return false
	case rep.status >= 400:
		return s.Switches().Hold4xx != "none"
	default:
		return true
	}
}

func (s *Server) inProgress() reply {
	rep := s.problemReply(&problem{Code: codeInProgress, Message: "the first request with this key is still running; repeat it shortly"})
	if s.Switches().RetryAfterInProgress {
		rep.header.Set("Retry-After", "1")
	}
	return rep
}

// scope is what a key is valid in: the connection, and nothing else (F4, D1, D6).
func (x *exchange) scope() idempotency.Scope {
	return idempotency.Scope{Tenant: x.conn.scope, Operation: "flavoso", Key: x.entry.Key}
}

// fingerprint is F7: method, path and raw body, and the query unless a switch says otherwise (D2).
func (s *Server) fingerprint(x *exchange) idempotency.Fingerprint {
	if s.Switches().Query == "ignore" {
		return idempotency.NewFingerprint(schemePathOnly, []byte(x.req.Method), []byte(x.req.URL.EscapedPath()), x.body)
	}
	f, _ := idempotency.RawBytes(x.req, x.body) // never fails: it takes any bytes
	return f
}

func headersFingerprint(x *exchange) idempotency.Fingerprint {
	return idempotency.NewFingerprint(schemeHeaders, []byte(x.req.Method), []byte(idempotency.Target(x.req)))
}

// brokenOff is D14: a request whose body never came whole claims nothing, unless the switch
// claim_on_headers says that the key was taken with the headers.
func (s *Server) brokenOff(x *exchange) {
	keys := x.req.Header["Idempotency-Key"]
	if !s.Switches().ClaimOnHeaders || x.route == nil || x.conn == nil || x.req.Method != http.MethodPost ||
		len(keys) == 0 || checkKey(keys) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.engine.Claim(x.detached(), idempotency.ClaimRequest{ // a key that is known already stays as it is
		Scope: x.scope(), Fingerprint: headersFingerprint(x), Lease: s.Switches().AbortAfter,
		Retention: s.Switches().HoldFor, OnLeaseLost: idempotency.FreeKey,
	})
}
