package flavoso

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/flavoso/flavoso-go/internal/inspect"
)

// guard lets through what a program on this machine asks directly.
func (h *inspectHandler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := refusedPeer(r)
		if why == "" && h.options.guarded && !h.authorized(r) {
			why = "the token is missing or wrong"
		}
		if why != "" {
			writeInspect(w, http.StatusForbidden, &inspect.Error{Code: inspect.CodeForbidden, Message: why})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *inspectHandler) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(h.options.token)) == 1
}

// proxyHeaders are set by what hands requests of others on: its own connection comes from loopback, and
// theirs do not.
var proxyHeaders = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"}

// refusedPeer says why a request does not come from a program on this machine; "" = it does.
func refusedPeer(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return "only programs on the same machine are answered"
	}
	for _, name := range proxyHeaders {
		if r.Header.Get(name) != "" {
			return "what a proxy hands on is not answered"
		}
	}
	// A browser on the till reaches loopback for every page it shows. Under a name of the page's own site,
	// made to point here, the page could even read the answer: then Host holds that name.
	if !loopbackHost(r.Host) {
		return "the Host header must name loopback"
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return "web pages of other origins are not answered"
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return "web pages of other sites are not answered"
	}
	return ""
}

// loopbackHost reports whether a Host header names loopback, with a port or without.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && ip.Unmap().IsLoopback()
}
