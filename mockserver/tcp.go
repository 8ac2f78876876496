package mockserver

import (
	"net"
	"net/url"
)

// overPipe reports whether a connection of the server came through memory.
func overPipe(c net.Conn) bool {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // below TLS
		c = t.NetConn()
	}
	_, is := c.(*pipeConn)
	return is
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
