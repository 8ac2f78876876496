package wire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// startH2 speaks just enough HTTP/2 to refuse every stream with code, and counts requests.
func startH2(t *testing.T, code uint32) (*Sender, *atomic.Int32) {
	t.Helper()
	certs := httptest.NewUnstartedServer(http.NotFoundHandler())
	certs.EnableHTTP2 = true
	certs.StartTLS()
	t.Cleanup(certs.Close)
	config := certs.TLS.Clone()
	config.NextProtos = []string{"h2"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)

	requests := new(atomic.Int32)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer context.AfterFunc(ctx, func() { c.Close() })()
				defer c.Close()
				refuseStreams(c, code, requests)
			})
		}
	})
	roots := certs.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(func() {
		l.Close()
		stop()
		transport.CloseIdleConnections()
		wg.Wait()
	})
	s := senderTo(t, "https://"+l.Addr().String())
	s.Transport = transport
	return s, requests
}

func refuseStreams(c net.Conn, code uint32, requests *atomic.Int32) {
	const frameHeaders, frameReset, frameSettings, flagAck = 1, 3, 4, 1
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		b := []byte{0, 0, byte(len(payload)), kind, flags}
		b = binary.BigEndian.AppendUint32(b, stream)
		return append(b, payload...)
	}
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	c.Write(frame(frameSettings, 0, 0, nil))
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, length); err != nil {
			return
		}
		switch {
		case head[3] == frameSettings && head[4]&flagAck == 0:
			c.Write(frame(frameSettings, flagAck, 0, nil))
		case head[3] == frameHeaders:
			requests.Add(1)
			c.Write(frame(frameReset, 0, binary.BigEndian.Uint32(head[5:]), binary.BigEndian.AppendUint32(nil, code)))
		}
	}
}

// net/http repeats a request without a body by itself when an HTTP/2 peer refuses its stream.
func TestSendIsOneRequestOnTheWireWhenAStreamIsRefused(t *testing.T) {
	for name, code := range map[string]uint32{"PROTOCOL_ERROR": 1, "INTERNAL_ERROR": 2, "REFUSED_STREAM": 7} {
		for _, body := range []string{"", "{}"} {
			t.Run(name+" with body "+body, func(t *testing.T) {
				s, requests := startH2(t, code)
				x := s.Send(t.Context(), outbox.Request{Method: "POST", Target: "/x", Body: []byte(body)}, "k", testToken)
				require.Error(t, x.Err)
				assert.False(t, x.NeverSent)
				assert.NotErrorIs(t, x.Err, context.Canceled, "nobody cancelled it")
				assert.EqualValues(t, 1, requests.Load())
			})
		}
		t.Run(name+" of a read is bounded", func(t *testing.T) {
			s, requests := startH2(t, code)
			x := s.Send(t.Context(), outbox.Request{Method: "GET", Target: "/x"}, "", testToken)
			require.Error(t, x.Err)
			assert.NotErrorIs(t, x.Err, context.Canceled)
			assert.LessOrEqual(t, requests.Load(), int32(maxSilentReads))
		})
	}
}
