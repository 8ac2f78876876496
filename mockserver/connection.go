package mockserver

import (
	"fmt"
	"strings"
	"time"
)

// connection is an app connected to one restaurant (F4): its tokens, and everything the restaurant has.
type connection struct {
	name  string
	scope string // what a key is valid in; a connection revoked and made again has a new one (D6)
	rnd   *random

	orders      map[string]*Order
	orderList   []*Order  // in the order of arrival; nil where one was deleted
	deadline    time.Time // the earliest accept deadline; zero = none
	bookings    map[string]*Booking
	bookingList []*Booking

	menu         menu
	availability *availabilityTable
	store        Store
	hours        hours

	windowStart time.Time // of the rate limit
	windowCount int
}

// connection returns the connection with this name, and makes it if it is new. The caller holds s.mu.
func (s *Server) connection(name string) *connection {
	if c := s.connections[name]; c != nil {
		return c
	}
	s.scopes[name]++
	now := s.now()
	stream := "connection " + name
	if n := s.scopes[name]; n > 1 { // made anew, it has other ids
		stream += fmt.Sprint(" made for the time no. ", n)
	}
	c := &connection{
		name: name, scope: fmt.Sprintf("%s#%d", name, s.scopes[name]), rnd: newRandom(s.config.seed, stream),
		orders: map[string]*Order{}, bookings: map[string]*Booking{},
	}
	c.store = seedStore(c.rnd, now)
	c.hours = seedHours()
	c.menu = seedMenu(c.store.Currency)
	c.availability = newAvailabilityTable()
	s.connections[name] = c
	if s.config.knownTokens {
		s.tokens[s.newToken()] = name
	} else {
		s.tokens["mock_"+name] = name
	}
	return c
}

// known returns the connection with this name as it stands now, or an empty one that nobody else sees: who
// looks does not make what is looked for. The caller holds s.mu.
func (s *Server) known(name string) *connection {
	c := s.connections[name]
	if c == nil {
		return &connection{name: name}
	}
	c.passTime(s.now())
	return c
}

func (s *Server) newToken() string { return "flv_" + s.tokenIDs.hex(20) }

// Token returns a valid access token of a connection, and makes the connection if it is new. It is
// mock_<connection>, unless the server takes known tokens only or the token was rotated.
func (s *Server) Token(connection string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connection(connection)
	if t := s.tokenOf(connection); t != "" {
		return t
	}
	t := s.newToken()
	s.tokens[t] = connection
	return t
}

// IssueToken returns a further token of a connection; those it has stay valid.
func (s *Server) IssueToken(connection string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connection(connection)
	t := s.newToken()
	s.tokens[t] = connection
	return t
}

// tokenOf returns the smallest valid token, so that the answer is the same every time.
func (s *Server) tokenOf(connection string) string {
	found := ""
	for t, name := range s.tokens {
		if name == connection && (found == "" || t < found) {
			found = t
		}
	}
	return found
}

// RotateToken ends every token of a connection and returns a new one. The connection stays the same, and
// so does what its keys stand for (D6).
func (s *Server) RotateToken(connection string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connection(connection)
	s.endTokens(connection)
	t := s.newToken()
	s.tokens[t] = connection
	return t
}

// endTokens makes every token of the connection invalid for good.
func (s *Server) endTokens(connection string) {
	for t, name := range s.tokens {
		if name == connection {
			s.tokens[t] = ""
		}
	}
	s.tokens["mock_"+connection] = ""
}

// RevokeTokens ends every token of a connection: its requests get 401 until [Server.RotateToken].
func (s *Server) RevokeTokens(connection string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connection(connection)
	s.endTokens(connection)
}

// Reconnect removes a connection with everything in it and makes it anew: same name, new token, and a new
// scope for keys (D6). It returns the token.
func (s *Server) Reconnect(connection string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endTokens(connection)
	delete(s.connections, connection)
	s.connection(connection)
	s.tokens["mock_"+connection] = ""
	t := s.newToken()
	s.tokens[t] = connection
	return t
}

// authenticate finds the connection of an Authorization header; nil when the token is not valid. The
// caller holds s.mu.
func (s *Server) authenticate(header string) *connection {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil
	}
	name, known := s.tokens[token]
	if known && name == "" {
		return nil
	}
	if !known {
		open, is := strings.CutPrefix(token, "mock_")
		if s.config.knownTokens || !is || open == "" {
			return nil
		}
		name = open
	}
	return s.connection(name)
}

// admit counts a request against the rate limit and says how long to wait; 0 = go on.
func (c *connection) admit(limit int, now time.Time) time.Duration {
	if limit <= 0 {
		return 0
	}
	if now.Sub(c.windowStart) >= time.Minute || now.Before(c.windowStart) {
		c.windowStart, c.windowCount = now, 0
	}
	c.windowCount++
	if c.windowCount <= limit {
		return 0
	}
	return c.windowStart.Add(time.Minute).Sub(now)
}

// passTime does what time does by itself: pending orders past their deadline are cancelled.
func (c *connection) passTime(now time.Time) {
	if c.deadline.IsZero() || now.Before(c.deadline) {
		return
	}
	c.deadline = time.Time{}
	for _, o := range c.orderList {
		switch {
		case o == nil:
		case o.Status != StatusPending || o.AcceptBy.IsZero():
		case now.Before(o.AcceptBy):
			c.watch(o)
		default:
			o.Status = StatusCancelled
			o.Cancellation = &Cancellation{By: "system", Reason: "not_accepted_in_time", At: o.AcceptBy}
			o.touch(o.AcceptBy)
		}
	}
}

// watch lets the deadline of a pending order count.
func (c *connection) watch(o *Order) {
	if o.Status == StatusPending && !o.AcceptBy.IsZero() && (c.deadline.IsZero() || o.AcceptBy.Before(c.deadline)) {
		c.deadline = o.AcceptBy
	}
}
