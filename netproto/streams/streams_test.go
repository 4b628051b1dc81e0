package streams

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/testutils/simnet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// pair returns both ends of a stream, over a network without delay.
func pair(t *testing.T) (here, there *quic.Stream) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, about, about, public, key)
	require.NoError(t, err)
	var router simnet.PerfectRouter
	var ends []*quic.Transport
	for i := range byte(2) {
		socket := simnet.NewSimConn(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 1+i), Port: 1}, &router)
		end := &quic.Transport{Conn: socket}
		t.Cleanup(func() { assert.NoError(t, end.Close()); assert.NoError(t, socket.Close()) })
		ends = append(ends, end)
	}
	l, err := ends[0].Listen(&tls.Config{NextProtos: []string{"test"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}, nil)
	require.NoError(t, err)
	conn, err := ends[1].Dial(t.Context(), l.Addr(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"test"}}, nil)
	require.NoError(t, err)
	here, err = conn.OpenStream()
	require.NoError(t, err)
	_, err = here.Write([]byte{1}) // without data it does not exist there
	require.NoError(t, err)
	peer, err := l.Accept(t.Context())
	require.NoError(t, err)
	there, err = peer.AcceptStream(t.Context())
	require.NoError(t, err)
	return here, there
}

// TestFinish: Finish waits up to a second for the end of a stream, says whether there is more than that, and wants no
// more in any case.
func TestFinish(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *quic.Stream)
		took time.Duration
		more bool
	}{
		"ended": {func(s *quic.Stream) { _ = s.Close() }, 0, false},
		"reset": {func(s *quic.Stream) { s.CancelWrite(1) }, 0, false},
		"more":  {func(s *quic.Stream) { _, _ = s.Write([]byte{1}) }, 0, true},
		"later": {func(s *quic.Stream) { time.AfterFunc(900*time.Millisecond, func() { _ = s.Close() }) },
			900 * time.Millisecond, false},
		"open": {func(*quic.Stream) {}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				here, there := pair(t)
				c.end(there)
				began := time.Now()
				assert.Equal(t, c.more, Finish(here))
				assert.Equal(t, c.took, time.Since(began).Round(10*time.Millisecond))
				if name == "more" || name == "open" {
					<-there.Context().Done()
					assert.Equal(t, &quic.StreamError{StreamID: there.StreamID(),
						ErrorCode: quic.StreamErrorCode(netproto.NoReason), Remote: true},
						context.Cause(there.Context()))
				}
			})
		})
	}
}
