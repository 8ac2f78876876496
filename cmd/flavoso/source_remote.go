package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// remote asks a running till (flavoso.InspectHandler).
type remote struct {
	base, token string
	client      *http.Client
}

// tokenVariable names the environment variable with the token for --inspect.
const tokenVariable = "FLAVOSO_INSPECT_TOKEN"

func newRemote(base, token string) *remote {
	return &remote{base: strings.TrimSuffix(base, "/"), token: token, client: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}, // never through a proxy
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("a till does not redirect: something else answers there")
		},
	}}
}

// openRemote asks the till that --inspect names.
func openRemote(base string) (source, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, usagef("--inspect takes the URL of a till on this machine, such as http://127.0.0.1:8484")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, usagef("--inspect takes a URL on loopback: a till answers programs on its own machine only")
	}
	return newRemote(base, os.Getenv(tokenVariable)), nil
}

// askHolder asks the till that has an outbox file open, when it has left its address beside the file.
func askHolder(ctx context.Context, held *outbox.LockedError) (source, error) {
	a, err := addressOf(held)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w. Stop it, or start it with flavoso.ListenInspect to look into the outbox while it runs; where it serves flavoso.InspectHandler itself, give its --inspect URL instead of the file", held)
	case err != nil:
		return nil, fmt.Errorf("%w. %w", held, err)
	}
	src := newRemote(a.URL, a.Token)
	if _, err := src.Status(ctx, ""); err != nil {
		return nil, fmt.Errorf("%w. It does not answer at %s: %w", held, a.URL, err)
	}
	return src, nil
}

// addressOf reads what the holder of an outbox file has left beside it.
func addressOf(held *outbox.LockedError) (a inspect.Address, err error) {
	path := held.Path + inspect.AddressSuffix
	b, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	// An address that another process left behind may be another program's by now: it gets no token.
	if err := json.Unmarshal(b, &a); err != nil || a.PID != held.PID {
		return inspect.Address{}, fmt.Errorf("what %s says is not of that process", path)
	}
	return a, nil
}

func (r *remote) Status(ctx context.Context, connection string) (s inspect.Status, err error) {
	q := url.Values{}
	if connection != "" {
		q.Set("connection", connection)
	}
	return s, r.do(ctx, http.MethodGet, "/status", q, nil, &s)
}

func (r *remote) List(ctx context.Context, q outbox.Query) (p inspect.Page, err error) {
	return p, r.do(ctx, http.MethodGet, "/operations", inspect.Values(q), nil, &p)
}

func (r *remote) Show(ctx context.Context, id string, bodies bool) (o inspect.Operation, err error) {
	return o, r.do(ctx, http.MethodGet, operationPath(id), inspect.Values(outbox.Query{Bodies: bodies}), nil, &o)
}

func (r *remote) Retry(ctx context.Context, id string) error {
	return r.do(ctx, http.MethodPost, operationPath(id)+"/retry", nil, struct{}{}, nil)
}

func (r *remote) Cancel(ctx context.Context, id string) error {
	return r.do(ctx, http.MethodPost, operationPath(id)+"/cancel", nil, struct{}{}, nil)
}

func (r *remote) Resolve(ctx context.Context, id string, x inspect.Resolution) error {
	return r.do(ctx, http.MethodPost, operationPath(id)+"/resolve", nil, x, nil)
}

func (r *remote) Resume(ctx context.Context, x inspect.Resume) error {
	return r.do(ctx, http.MethodPost, "/lanes/resume", nil, x, nil)
}

func (r *remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

func operationPath(id string) string { return "/operations/" + url.PathEscape(id) }

// do sends one request and reads its answer into out.
func (r *remote) do(ctx context.Context, method, path string, q url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	target := r.base + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the till: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		refused := &inspect.Error{}
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if json.Unmarshal(b, refused) != nil || refused.Code == "" {
			return fmt.Errorf("asking the till: it answered %s, which no till does", resp.Status)
		}
		if refused.Code == inspect.CodeForbidden && r.token == "" {
			return fmt.Errorf("the till refuses: %w (%s is not set)", refused, tokenVariable)
		}
		return fmt.Errorf("the till refuses: %w", refused)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("reading the till's answer: %w", err)
	}
	return nil
}
