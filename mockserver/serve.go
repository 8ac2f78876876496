package mockserver

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// exchange is one request on its way through the server.
type exchange struct {
	req       *http.Request
	entry     *Request // its place in the journal
	outside   bool     // the path is not below the base path
	route     *route   // nil = no such path or method
	params    []string
	allowed   []string
	conn      *connection // nil = token not valid
	body      []byte
	tooLarge  bool
	requestID string
	plan      plan
}

// reply is an answer ready to be sent.
type reply struct {
	status   int
	header   http.Header // what belongs to the answer itself, as far as it is held (D21)
	body     []byte
	replayed bool
	foreign  bool // not from Flavoso: no request id
}

const jsonType = "application/json; charset=utf-8"

// errCrashed: the request's process died, as far as the client can see.
var errCrashed = errors.New("mockserver: crashed by a fault")

// ServeHTTP serves the API below /v1 and the admin API at /_mock. Nothing else is there.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		hangUp(w, false)
		return
	}
	defer s.work.Done()
	if path := r.URL.EscapedPath(); path == adminRoot || strings.HasPrefix(path, adminPath) {
		s.serveAdmin(w, r, path)
		return
	}
	x := s.recognize(r)
	// Over a pipe the dial is refused. A request for no operation does not use the fault up.
	if info, _ := r.Context().Value(connInfoKey{}).(connInfo); !info.overPipe && x.route != nil && s.faults.refuses() {
		hangUp(w, true)
		return
	}
	if !s.receive(x) {
		hangUp(w, false)
		return
	}
	s.perform(w, x)
}

// recognize finds out which operation the request asks for.
func (s *Server) recognize(r *http.Request) *exchange {
	x := &exchange{req: r, entry: &Request{Method: r.Method, Target: idempotency.Target(r), Path: r.URL.EscapedPath()}}
	path, below := belowBase(x.entry.Path)
	if !below {
		x.outside = true
		return x
	}
	x.entry.Path = path
	x.route, x.params, x.allowed = s.routes.find(r.Method, path)
	return x
}

// receive reads the request whole and notes it. false: it broke off before its body was there (D14).
func (s *Server) receive(x *exchange) bool {
	r := x.req
	s.mu.Lock()
	x.requestID = "req_" + s.requestIDs.hex(12)
	x.conn = s.authenticate(r.Header.Get("Authorization"))
	now := s.now()
	if x.conn != nil {
		x.conn.passTime(now)
	}
	s.mu.Unlock()

	header := r.Header.Clone()
	header.Del("Authorization")
	info, _ := r.Context().Value(connInfoKey{}).(connInfo)
	x.entry.At, x.entry.Header, x.entry.Conn, x.entry.RequestID = now, header, info.number, x.requestID
	if keys := r.Header["Idempotency-Key"]; len(keys) == 1 {
		x.entry.Key = keys[0]
	}
	if x.conn != nil {
		x.entry.Connection = x.conn.name
	}
	limit := s.Switches().MaxBody
	body, err := readBody(r, limit+1)
	if int64(len(body)) > limit {
		x.tooLarge = true
		body = body[:limit]
		// The rest is read and forgotten, so that the client gets to read why.
		_, err = io.Copy(io.Discard, io.LimitReader(r.Body, maxDrain))
	}
	x.body, x.entry.Body = body, body
	if err != nil {
		x.entry.Fault = "broken_off"
		s.journal.add(x.entry)
		s.brokenOff(x)
		return false
	}
	if !x.outside {
		x.plan = s.faults.plan(r.Method, x.entry.Path, x.entry.Connection, x.route != nil)
	}
	x.entry.Fault = x.plan.name()
	s.journal.add(x.entry)
	return true
}

// maxDrain is how much of a body that is too large is read after all.
const maxDrain = 64 << 20

// readBody reads at most limit bytes, after de-chunking and before any decoding (D5).
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if n := r.ContentLength; n >= 0 && n <= min(limit, 64<<10) {
		body := make([]byte, n)
		got, err := io.ReadFull(r.Body, body)
		return body[:got], err
	}
	return io.ReadAll(io.LimitReader(r.Body, limit))
}

// perform carries the request through its faults: on the way in, in the handler, and on the way out.
func (s *Server) perform(w http.ResponseWriter, x *exchange) {
	if !s.wait(x.plan.before) {
		hangUp(w, false)
		return
	}
	switch {
	case x.plan.is(faultReset, ""):
		hangUp(w, true)
		return
	case x.plan.is(faultHang, StageBefore):
		s.hang(x)
		hangUp(w, false)
		return
	case x.plan.is(faultLate, ""):
		hangUp(w, false)
		if s.wait(time.Duration(x.plan.act.Delay)) {
			_, _ = s.execute(x) // nobody is there to read the answer
		}
		return
	}
	rep, onTheWay := s.faultReply(x)
	if !onTheWay {
		var err error
		if rep, err = s.execute(x); err != nil {
			hangUp(w, false)
			return
		}
	}
	s.deliver(w, x, rep)
}

// execute is the API without faults on the way: the checks in the order of D23, then the operation.
func (s *Server) execute(x *exchange) (reply, error) {
	if p := s.checkRoute(x); p != nil {
		rep := s.problemReply(p)
		if len(x.allowed) > 0 {
			rep.header.Set("Allow", strings.Join(x.allowed, ", "))
		}
		return rep, nil
	}
	if x.conn == nil {
		return s.problemReply(&problem{Code: codeUnauthorized, Message: "the access token is missing or not valid"}), nil
	}
	early, retry := s.checkForm(x)
	keyed := x.req.Method == http.MethodPost && len(x.req.Header["Idempotency-Key"]) > 0 // F2
	if keyed && (early == nil || s.Switches().Hold4xx == "all") {
		if p := checkKey(x.req.Header["Idempotency-Key"]); p != nil {
			return s.problemReply(p), nil
		}
		return s.executeOnce(x, early, retry)
	}
	if early != nil {
		return s.earlyReply(early, retry), nil
	}
	if crashed := s.inHandler(x); crashed {
		return reply{}, errCrashed
	}
	rep, _ := s.run(x, nil)
	if x.plan.is(faultCrashAfter, "") {
		return reply{}, errCrashed
	}
	return rep, nil
}

func (s *Server) checkRoute(x *exchange) *problem {
	switch {
	case x.route != nil:
		return nil
	case len(x.allowed) > 0:
		return &problem{Code: codeMethodNotAllowed, Message: "this path has no method " + x.req.Method}
	case x.outside:
		return &problem{Code: codeNotFound, Message: "the API lives below " + basePath + ": the base URL is " + s.baseURL +
			"; the mock's admin API lives at " + adminRoot}
	default:
		return &problem{Code: codeNotFound, Message: "no such path"}
	}
}

// checkForm makes the checks that come before the idempotency layer, in the order of D23.
func (s *Server) checkForm(x *exchange) (p *problem, retry time.Duration) {
	s.mu.Lock()
	retry = x.conn.admit(s.Switches().RateLimit, s.now())
	s.mu.Unlock()
	if retry > 0 {
		return &problem{Code: codeRateLimited, Message: "too many requests"}, retry
	}
	if x.req.Method == http.MethodPost {
		keys := x.req.Header["Idempotency-Key"]
		if len(keys) > 0 {
			if p := checkKey(keys); p != nil {
				return p, 0
			}
		} else if s.Switches().RequireKey {
			return &problem{Code: codeInvalidRequest, Message: "Idempotency-Key is required", Param: "Idempotency-Key"}, 0
		}
	}
	if x.route.write() && s.Switches().MediaType == "required" {
		if media, _, err := mime.ParseMediaType(x.req.Header.Get("Content-Type")); len(x.body) > 0 &&
			(err != nil || media != "application/json") {
			return &problem{Code: codeMediaType, Message: "the body must be application/json"}, 0
		}
	}
	if x.tooLarge {
		return &problem{Code: codeTooLarge, Message: "the body is larger than " + strconv.FormatInt(s.Switches().MaxBody, 10) + " bytes"}, 0
	}
	return nil, 0
}

// checkKey is F3 with the decisions of D9.
func checkKey(keys []string) *problem {
	message := ""
	if len(keys) > 1 {
		message = "there must be one Idempotency-Key"
	} else if err := idempotency.ValidateKey(keys[0]); err != nil {
		message = err.Error()
	}
	if message == "" {
		return nil
	}
	return &problem{Code: codeInvalidRequest, Message: message, Param: "Idempotency-Key"}
}

func (s *Server) earlyReply(p *problem, retry time.Duration) reply {
	rep := s.problemReply(p)
	if retry > 0 {
		rep.header.Set("Retry-After", strconv.FormatInt(int64((retry+time.Second-1)/time.Second), 10))
	}
	return rep
}

// problemReply words a refusal.
func (s *Server) problemReply(p *problem) reply {
	var v any = struct {
		Error *problem `json:"error"`
	}{p}
	if s.Switches().ErrorEnvelope == "flat" {
		v = p
	}
	return reply{status: p.status(), header: http.Header{"Content-Type": {jsonType}}, body: encode(v)}
}

// run executes the operation. With commit, effect and held result are one step: nobody sees one without
// the other.
func (s *Server) run(x *exchange, commit func(reply) error) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{
		server: s, conn: x.conn, now: s.now(), params: x.params, query: x.req.URL.Query(), body: x.body,
		requestID: x.requestID, key: x.entry.Key,
	}
	if x.req.Method != http.MethodPost {
		c.key = "" // F2
	}
	x.conn.passTime(c.now)
	a := x.route.run(c)
	var rep reply
	if a.problem != nil {
		rep = s.problemReply(a.problem)
	} else {
		rep = reply{status: a.status, header: http.Header{"Content-Type": {jsonType}}, body: encode(a.value)}
	}
	if a.location != "" {
		rep.header.Set("Location", basePath+a.location)
	}
	s.ledger.add(c.effects)
	if commit == nil {
		return rep, nil
	}
	return rep, commit(rep)
}

// hang waits until the client leaves or the server closes.
func (s *Server) hang(x *exchange) {
	select {
	case <-x.req.Context().Done():
	case <-s.done:
	}
}

// detached is the request's context without the client's cancellation (D15).
func (x *exchange) detached() context.Context { return context.WithoutCancel(x.req.Context()) }
