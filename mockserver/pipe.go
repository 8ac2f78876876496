package mockserver

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// pipeListener accepts connections that never leave the process. Nothing in it waits on the operating
// system, so that inside a testing/synctest bubble time can move while a request is under way.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

// dial connects to the listener. A closed one refuses, as a port nobody listens on does.
func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	reset := new(atomic.Bool)
	select {
	case l.conns <- &pipeConn{Conn: server, reset: reset}:
		return &pipeConn{Conn: client, reset: reset}, nil
	case <-l.done:
		return nil, errRefused()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func errRefused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: pipeAddr{}, Err: syscall.ECONNREFUSED}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "mockserver:0" }

// pipeConn gives a pipe the errors of a TCP connection, so that a client meets in memory what it would
// meet on a wire.
type pipeConn struct {
	net.Conn
	reset *atomic.Bool // shared by both ends
}

// SetLinger with 0 makes the next Close a reset instead of an orderly end, as on *net.TCPConn.
func (c *pipeConn) SetLinger(sec int) error {
	c.reset.Store(sec == 0)
	return nil
}

func (c *pipeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.reset.Load() {
		err = &net.OpError{Op: "read", Net: "tcp", Addr: pipeAddr{}, Err: syscall.ECONNRESET}
	}
	return n, err
}

func (c *pipeConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Net: "tcp", Addr: pipeAddr{}, Err: syscall.EPIPE}
	}
	return n, err
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }
