package link

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quicEcho starts a QUIC server that sends every stream back. It returns its address and the connections that it
// accepts.
func quicEcho(t *testing.T) (addr string, conns chan *quic.Conn, config *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	config = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos: []string{"echo"}, InsecureSkipVerify: true}
	server, err := quic.ListenAddr("127.0.0.1:0", config, nil)
	require.NoError(t, err)
	conns = make(chan *quic.Conn, 4)
	go func() {
		for {
			conn, err := server.Accept(context.Background())
			if err != nil {
				return
			}
			conns <- conn
			go func() {
				for {
					s, err := conn.AcceptStream(context.Background())
					if err != nil {
						return
					}
					go func() {
						_, _ = io.Copy(s, s)
						_ = s.Close()
					}()
				}
			}()
		}
	}()
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return server.Addr().String(), conns, config
}

// quicDial connects through a link.
func quicDial(t *testing.T, l *Link, config *tls.Config) *quic.Conn {
	t.Helper()
	conn, err := quic.DialAddr(t.Context(), l.Addr().String(), config, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	return conn
}

// there sends bytes there and back on a new stream.
func there(t *testing.T, conn *quic.Conn, b []byte) []byte {
	t.Helper()
	s, err := conn.OpenStreamSync(t.Context())
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() {
		_, err := s.Write(b)
		if err == nil {
			err = s.Close()
		}
		sent <- err
	}()
	back, err := io.ReadAll(s)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	return back
}

// noise returns random bytes.
func noise(n int) []byte {
	b := make([]byte, n)
	r := seeds(9)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestQUIC: a QUIC connection survives a bad link: all data arrive unchanged, although a tenth of the packets is lost
// in each direction, and the address of the client changes.
func TestQUIC(t *testing.T) {
	addr, conns, config := quicEcho(t)
	way := Direction{Delay: 10 * time.Millisecond, Loss: 0.1}
	l := runs(t, Options{Target: addr, Seed: 3, Up: way, Down: way})
	conn := quicDial(t, l, config)
	seen := <-conns
	text := noise(100_000)
	require.True(t, bytes.Equal(text, there(t, conn, text)))
	before := seen.RemoteAddr().String()
	require.NoError(t, l.Rebind())
	require.True(t, bytes.Equal(text, there(t, conn, text)))
	assert.NotEqual(t, before, seen.RemoteAddr().String(), "the server uses the new address")
	assert.Empty(t, conns, "the same connection")
	s := l.Stats()
	for name, c := range map[string]Counts{"up": s.Up, "down": s.Down} {
		assert.Greater(t, c.Packets, int64(100), name)
		assert.Equal(t, lostOf(Options{Seed: 3, Up: way, Down: way}, name, c.Packets), c.Lost, name)
	}
	t.Logf("%d packets up, %d lost; %d down, %d lost", s.Up.Packets, s.Up.Lost, s.Down.Packets, s.Down.Lost)
}

// lostOf returns how many of the first n packets of a direction are lost.
func lostOf(o Options, name string, n int64) (count int64) {
	w := map[string]directionID{"up": directionUp, "down": directionDown}[name]
	for _, f := range travel(o, w, make([]packet, n)) {
		if f.end == lost {
			count++
		}
	}
	return count
}
