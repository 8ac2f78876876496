package mockserver

import (
	"net"
	"net/url"
)

// refusingListener drops connections while a refuse fault is active.
type refusingListener struct {
	net.Listener
	faults *faultSet
}

func (l refusingListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || !l.faults.refuses() {
			return c, err
		}
		reset(c)
	}
}

// reset closes a connection so that the other end sees it break, not end.
func reset(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // below TLS
		c = t.NetConn()
	}
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // without it the close is an orderly one; nothing else depends on it
	}
	_ = c.Close() // the connection is given up either way
}

// hostOf is the host:port of a URL made by this package.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Host
}
