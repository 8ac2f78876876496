package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// cable is the till's network cable: it can be pulled.
type cable struct {
	mu     sync.Mutex
	pulled bool
	conns  map[net.Conn]bool
}

// transport is an HTTP transport whose connections go through the cable. It is an *http.Transport, so that
// the client can prove of a failed attempt that it was never sent.
func (c *cable) transport() *http.Transport {
	return &http.Transport{DialContext: c.dial, IdleConnTimeout: time.Minute}
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.isPulled() {
		return nil, errors.New("the network cable is pulled")
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		c.conns = map[net.Conn]bool{}
	}
	c.conns[conn] = true
	return &plugged{Conn: conn, cable: c}, nil
}

// toggle pulls the cable, which breaks every connection, or plugs it in again.
func (c *cable) toggle() (pulled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = !c.pulled
	if c.pulled {
		for conn := range c.conns {
			conn.Close()
		}
		c.conns = nil
	}
	return c.pulled
}

func (c *cable) isPulled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pulled
}

// plugged is a connection through the cable.
type plugged struct {
	net.Conn
	cable *cable
}

func (p *plugged) Close() error {
	p.cable.mu.Lock()
	delete(p.cable.conns, p.Conn)
	p.cable.mu.Unlock()
	return p.Conn.Close()
}
