package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// MockControl returns what the Flavoso mock server at target can do beside its API, by its admin API. The
// error says why there is none: usually that the target is no mock server.
//
// Its Advance moves the clock of the whole server, for every connection.
func MockControl(ctx context.Context, target Target) (*Control, error) {
	u, err := url.Parse(target.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	u.Path, u.RawQuery = "/_mock/", ""
	m := &mock{admin: u.String(), http: &http.Client{Transport: target.Transport, Timeout: 30 * time.Second}}
	defer m.http.CloseIdleConnections()
	var status struct {
		Switches map[string]any `json:"switches"`
	}
	if err := m.call(ctx, "GET", "status", nil, &status); err != nil || status.Switches == nil {
		return nil, fmt.Errorf("conformance: %s is no mock server", target.BaseURL)
	}
	if m.connection, err = m.connectionOf(ctx, target.Token); err != nil {
		return nil, err
	}
	return &Control{Advance: m.advance, NewOrder: m.newOrder, NewToken: m.newToken, Arm: m.arm}, nil
}

// mock speaks to the admin API of a mock server.
type mock struct {
	admin      string
	connection string
	http       *http.Client
}

func (m *mock) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, m.admin+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("conformance: the mock's admin API answered %s %s with %d: %s", method, path, resp.StatusCode, bytes.TrimSpace(raw))
	}
	return json.Unmarshal(raw, out)
}

// connectionOf finds whose token it is.
func (m *mock) connectionOf(ctx context.Context, token string) (string, error) {
	var l struct {
		Data []struct{ Connection, Token string } `json:"data"`
	}
	if err := m.call(ctx, "GET", "connections", nil, &l); err != nil {
		return "", err
	}
	for _, c := range l.Data {
		if c.Token == token {
			return c.Connection, nil
		}
	}
	if name, ok := strings.CutPrefix(token, "mock_"); ok {
		return name, nil
	}
	return "", fmt.Errorf("conformance: the mock server does not know whose token this is")
}

func (m *mock) advance(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	return m.call(ctx, "POST", "clock", map[string]string{"advance": d.String()}, &struct{}{})
}

func (m *mock) newOrder(ctx context.Context) (string, error) {
	var o struct{ ID string }
	err := m.call(ctx, "POST", "orders", map[string]string{"connection": m.connection}, &o)
	return o.ID, err
}

func (m *mock) newToken(ctx context.Context) (string, error) {
	var c struct{ Token string }
	err := m.call(ctx, "POST", "connections", map[string]any{"connection": m.connection, "issue": true}, &c)
	return c.Token, err
}

func (m *mock) arm(ctx context.Context, t Trouble) error {
	fault := map[string]any{"method": "POST", "path": "/bookings", "connection": m.connection, "times": 1}
	switch t {
	case ServerError:
		fault["fault"], fault["code"] = "status", http.StatusInternalServerError
	case Crash:
		fault["fault"] = "crash_before_commit"
	case Slow:
		fault["fault"], fault["delay"], fault["stage"] = "delay", "500ms", "in_handler"
	}
	return m.call(ctx, "POST", "faults", fault, &struct{}{})
}
