package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// bankTimeout bounds a call to the bank. After it the bank may still carry a request out.
const bankTimeout = 2 * time.Second

// bankSettles is how long the bank may take for a request at most: only then is 'no such charge' final.
const bankSettles = 10 * time.Second

type charge struct {
	Amount int64 `json:"amount"`
}

// createCharge has its effect at the bank. No database transaction is open meanwhile (S8).
func (s *service) createCharge(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var c charge
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Amount <= 0 {
		idempotency.SetOutcome(ctx, idempotency.Rejected)
		writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": "amount must be positive"})
		return
	}
	claim, _ := idempotency.ClaimFrom(ctx)
	if err := idempotency.MarkEffect(ctx); err != nil {
		idempotency.SetOutcome(ctx, idempotency.NoEffect)
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	// From here on a crash makes the charge uncertain. The bank gets the same key for every attempt.
	switch err := s.client.charge(ctx, bankKey(claim.Scope), c); {
	case err == nil:
		idempotency.SetOutcome(ctx, idempotency.Committed)
		writeJSON(w, http.StatusCreated, map[string]any{"charged": c.Amount})
	case errors.Is(err, errDeclined):
		idempotency.SetOutcome(ctx, idempotency.Rejected)
		writeJSON(w, http.StatusPaymentRequired, map[string]string{"error": "declined"})
	default: // the middleware makes it 503 result_unknown, because the effect is marked
		s.log.Warn("the bank's answer is unknown", "error", err)
		http.Error(w, "unknown", http.StatusBadGateway)
	}
}

// bankKey is the charge's identity at the bank. It depends on the scope only, so that a reconciler can make it too.
func bankKey(scope idempotency.Scope) string {
	return idempotency.DownstreamKey(idempotency.Claim{Scope: scope}, "charge")
}

// reconcile asks the bank about every charge whose result nobody knows.
func (s *service) reconcile(ctx context.Context) (settled int, err error) {
	filter := idempotency.Filter{States: []idempotency.State{idempotency.Uncertain}}
	for {
		open, err := s.engine.List(ctx, filter)
		if err != nil {
			return settled, err
		}
		for _, rec := range open {
			filter.After = rec.Scope.ID()
			verdict, err := s.verdict(ctx, rec)
			if err != nil || verdict.Verdict == 0 {
				s.log.Info("still unknown", "id", rec.Scope.ID().String(), "error", err)
				continue
			}
			switch err := s.engine.Reconcile(ctx, rec.Scope.ID(), rec.Generation, verdict); {
			case errors.Is(err, idempotency.ErrState), errors.Is(err, idempotency.ErrNotFound): // somebody else was faster
			case err != nil:
				return settled, err
			default:
				settled++
			}
		}
		if len(open) < 100 {
			return settled, nil
		}
	}
}

func (s *service) verdict(ctx context.Context, rec idempotency.Record) (idempotency.Reconciliation, error) {
	amount, found, err := s.client.find(ctx, bankKey(rec.Scope))
	switch {
	case err != nil:
		return idempotency.Reconciliation{}, err
	case found:
		res, err := jsonResult(http.StatusCreated, map[string]any{"charged": amount})
		return idempotency.Reconciliation{Verdict: idempotency.Happened, Result: res}, err
	case time.Since(rec.CreatedAt) > bankSettles:
		return idempotency.Reconciliation{Verdict: idempotency.DidNotHappen}, nil
	}
	return idempotency.Reconciliation{}, nil
}

// bankClient talks to the bank.
type bankClient struct{ base string }

var errDeclined = errors.New("declined")

func (b bankClient) charge(ctx context.Context, key string, c charge) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	status, _, err := b.do(ctx, http.MethodPut, "/charges/"+key, body)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK:
		return nil
	case status == http.StatusPaymentRequired:
		return errDeclined
	}
	return fmt.Errorf("the bank answered %d", status)
}

func (b bankClient) find(ctx context.Context, key string) (amount int64, found bool, err error) {
	status, body, err := b.do(ctx, http.MethodGet, "/charges/"+key, nil)
	switch {
	case err != nil:
		return 0, false, err
	case status == http.StatusNotFound:
		return 0, false, nil
	case status != http.StatusOK:
		return 0, false, fmt.Errorf("the bank answered %d", status)
	}
	var c charge
	err = json.Unmarshal(body, &c)
	return c.Amount, true, err
}

func (b bankClient) do(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bankTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, answer, err
}
