package client

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// one is a cache for one ticket.
type one struct{ s *tls.ClientSessionState }

func (o *one) Get(string) (*tls.ClientSessionState, bool) { return o.s, o.s != nil }
func (o *one) Put(_ string, s *tls.ClientSessionState)    { o.s = s }

// newCache returns a cache for one ticket, which clients can share.
func newCache() tls.ClientSessionCache { return tls.NewLRUClientSessionCache(1) }

func config(cache tls.ClientSessionCache) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"a"},
		MinVersion: tls.VersionTLS13, ClientSessionCache: cache}
}

// realSession makes a ticket in a handshake over loopback.
func realSession(t testing.TB) *tls.ClientSessionState {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, listener.Close()) }()
	go func() {
		there, err := listener.Accept()
		if err != nil {
			return
		}
		c := tls.Server(there, &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"a"},
		})
		_, _ = c.Write([]byte("x"))
		_ = c.Close()
	}()
	cache := &one{}
	c, err := tls.Dial("tcp", listener.Addr().String(), config(cache))
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NotNil(t, cache.s)
	return cache.s
}

// state returns a session as bytes, for comparison.
func state(t testing.TB, s *tls.ClientSessionState) string {
	t.Helper()
	ticket, state, err := s.ResumptionState()
	require.NoError(t, err)
	b, err := state.Bytes()
	require.NoError(t, err)
	return string(ticket) + " " + string(b)
}

// TestTicketFolder: a stored ticket is returned once, to any client; keys are independent.
func TestTicketFolder(t *testing.T) {
	dir := ticketFolder(filepath.Join(held.TempDir(t), "a", "b"))
	_, ok := dir.Get("k")
	assert.False(t, ok, "no folder yet")
	a, b := realSession(t), realSession(t)
	dir.Put("k", a)
	dir.Put("l", b)
	dir.Put("m", a)
	dir.Put("m", nil)
	dir.Put("n", nil)
	dir.Put("o", new(tls.ClientSessionState)) // it has no ticket
	_, ok = dir.Get("m")
	assert.False(t, ok)
	have, ok := ticketFolder(dir).Get("l")
	require.True(t, ok)
	assert.Equal(t, state(t, b), state(t, have))
	_, ok = dir.Get("l")
	assert.False(t, ok)

	var taken atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, ok := dir.Get("k"); ok {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, taken.Load())
	left, err := os.ReadDir(string(dir))
	require.NoError(t, err)
	assert.Empty(t, left)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(string(dir))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "the files are secret")
	}
}

// TestTicketFolderBroken: a file that is not a ticket of this gateway is removed, and reading it is limited.
func TestTicketFolderBroken(t *testing.T) {
	now := time.Now()
	key := sha256.Sum256([]byte("k"))
	good, err := newTicketFile(key, realSession(t), now)
	require.NoError(t, err)
	changed := func(change func(*ticketFile)) []byte {
		var f ticketFile
		require.NoError(t, json.Unmarshal(good, &f))
		change(&f)
		b, err := json.Marshal(f)
		require.NoError(t, err)
		return b
	}
	for name, b := range map[string][]byte{
		"empty":            {},
		"cut":              good[:200],
		"too large":        make([]byte, 1<<20),
		"too large, valid": append(bytes.Clone(good), bytes.Repeat([]byte(" "), ticketLongest)...),
		"another gateway":  changed(func(f *ticketFile) { f.Key[3]++ }),
		"another version":  changed(func(f *ticketFile) { f.Go = "go1.2.3" }),
		"old":              changed(func(f *ticketFile) { f.Made -= int64(ticketLasts/time.Second) + 2 }),
		"of the future":    changed(func(f *ticketFile) { f.Made += 60 }),
		"no ticket":        changed(func(f *ticketFile) { f.Ticket = nil }),
		"no state":         changed(func(f *ticketFile) { f.State = nil }),
		"state cut":        changed(func(f *ticketFile) { f.State = f.State[:len(f.State)/2] }),
		"of a server":      changed(func(f *ticketFile) { f.State[2] = 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := ticketFolder(held.TempDir(t))
			require.NoError(t, os.WriteFile(dir.ticketPath(key), b, 0o600))
			_, ok := dir.Get("k")
			assert.False(t, ok)
			left, err := os.ReadDir(string(dir))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
	for age, want := range map[time.Duration]bool{-1: false, 0: true, ticketLasts: true, ticketLasts + 1: false} {
		_, err := parseTicketFile(good, key, now.Truncate(time.Second).Add(age))
		assert.Equal(t, want, err == nil, "after %v", age)
	}
	dir := ticketFolder(held.TempDir(t))
	require.NoError(t, os.WriteFile(dir.ticketPath(key), good, 0o600))
	_, ok := dir.Get("k")
	assert.True(t, ok, "and this is a ticket")
	require.NoError(t, os.Mkdir(dir.ticketPath(key), 0o700))
	_, ok = dir.Get("k")
	assert.False(t, ok, "a folder in its place")
	blocked := filepath.Join(held.TempDir(t), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	ticketFolder(blocked).Put("k", realSession(t)) // nowhere to write: the ticket is lost, without an error
}

// TestTicketFolderBounds: a ticket is kept up to a maximum length. If its file cannot be replaced, no other is left.
func TestTicketFolderBounds(t *testing.T) {
	dir := ticketFolder(held.TempDir(t))
	_, inner, err := realSession(t).ResumptionState()
	require.NoError(t, err)
	key := sha256.Sum256([]byte("k"))
	sized := func(n int) *tls.ClientSessionState {
		s, err := tls.NewResumptionState(make([]byte, n), inner)
		require.NoError(t, err)
		return s
	}
	empty, err := newTicketFile(key, sized(0), time.Now())
	require.NoError(t, err)
	most := (ticketLongest - len(empty)) / 4 * 3 // bytes in base 64
	for n, good := range map[int]bool{most: true, most + 1: false} {
		s := sized(n)
		dir.Put("k", s)
		_, err := os.Stat(dir.ticketPath(key))
		assert.Equal(t, good, err == nil)
		have, ok := dir.Get("k")
		require.Equal(t, good, ok)
		assert.True(t, !good || state(t, s) == state(t, have))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir.ticketPath(key), "x"), 0o700))
	dir.Put("k", realSession(t))
	left, err := os.ReadDir(string(dir))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file")
}

// TestTicketRefused: a ticket is dropped only if the gateway replied and aborted the handshake.
func TestTicketRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		kept bool
	}{
		{"refused by the gateway", &quic.TransportError{Remote: true, ErrorCode: 0x100 + 40}, false},
		{"refused, wrapped", fmt.Errorf("x: %w", &quic.TransportError{Remote: true, ErrorCode: 0x100 + 20}), false},
		{"refused by the client", &quic.TransportError{ErrorCode: 0x100 + 40}, true},
		{"another error of the gateway", &quic.TransportError{Remote: true, ErrorCode: quic.InternalError}, true},
		{"no reply", &quic.IdleTimeoutError{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := new(tls.ClientSessionState)
			x := &tickets{cache: newCache(), addr: "a:1"}
			x.Put("a", s)
			_, ok := x.Get("a")
			require.True(t, ok)
			x.dropRefusedTicket(c.err)
			x.Put("a", nil) // the attempt failed
			again, ok := x.Get("a")
			assert.Equal(t, c.kept, ok)
			assert.Equal(t, c.kept, again == s)
			x.Put("a", nil)
			x.dropRefusedTicket(c.err)
			_, ok = x.Get("a")
			assert.Equal(t, c.kept, ok, "also if it fails after that")
		})
	}
}

// TestPin: a gateway without a certificate does not match the pin.
func TestPin(t *testing.T) {
	cert := &x509.Certificate{Raw: []byte("certificate")}
	pin := netproto.Digest(sha256.Sum256(cert.Raw))
	other := &x509.Certificate{Raw: []byte("another")}
	for _, c := range []struct {
		name  string
		chain []*x509.Certificate
		have  netproto.Digest
		good  bool
	}{
		{"no certificate", nil, netproto.Digest{}, false},
		{"the certificate first", []*x509.Certificate{cert, other}, pin, true},
		{"another certificate first", []*x509.Certificate{other, cert}, sha256.Sum256(other.Raw), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := verifyPin(pin, tls.ConnectionState{PeerCertificates: c.chain})
			if c.good {
				assert.NoError(t, err)
				return
			}
			assert.Equal(t, &PinError{Want: pin, Have: c.have}, err)
			assert.EqualError(t, err,
				"the gateway's certificate has the fingerprint "+c.have.String()+", pinned is "+pin.String())
		})
	}
}

// TestTrust: without a pin the system's authorities decide, for the name that was dialled or given; with one the
// certificate alone.
func TestTrust(t *testing.T) {
	system := Options{}.tlsConfig("host", nil)
	assert.False(t, system.InsecureSkipVerify)
	assert.Nil(t, system.VerifyConnection)
	assert.Equal(t, "host", system.ServerName)
	pinned := Options{Pin: netproto.Digest{1}, ServerName: "name"}.tlsConfig("host", nil)
	assert.True(t, pinned.InsecureSkipVerify)
	assert.ErrorAs(t, pinned.VerifyConnection(tls.ConnectionState{}), new(*PinError))
	assert.Equal(t, "name", pinned.ServerName)
}

// TestTicketFolderSweep: unused tickets are removed after a week; other files stay.
func TestTicketFolderSweep(t *testing.T) {
	dir := ticketFolder(held.TempDir(t))
	old := time.Now().Add(-ticketLasts - time.Hour)
	for name, when := range map[string]time.Time{
		"a.ticket": old, "new-1.ticket": old, "b.ticket": time.Now(), "other": old,
	} {
		path := filepath.Join(string(dir), name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, when, when))
	}
	folder := filepath.Join(string(dir), "folder.ticket")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.Chtimes(folder, old, old))
	dir.Put("k", realSession(t))
	left, err := os.ReadDir(string(dir))
	require.NoError(t, err)
	assert.Len(t, left, 4)
	assert.DirExists(t, folder)
	assert.NoFileExists(t, filepath.Join(string(dir), "a.ticket"))
	assert.FileExists(t, filepath.Join(string(dir), "other"))
}

// TestTicketsServeOnce: a ticket is used for one connection, and again after a failed attempt, but not forever.
func TestTicketsServeOnce(t *testing.T) {
	cache := &one{}
	x := &tickets{cache: cache, addr: "a:1"}
	s := realSession(t)
	x.Put("a", s)
	got, ok := x.Get("a")
	require.True(t, ok)
	require.Same(t, s, got)
	_, ok = x.Get("a")
	require.False(t, ok, "the first attempt is still running")
	x.Put("a", s)
	for range 16 {
		_, ok = x.Get("a")
		require.True(t, ok)
		x.Put("a", nil)
	}
	_, ok = x.Get("a")
	require.True(t, ok)
	x.Put("a", nil)
	_, ok = x.Get("a")
	require.False(t, ok)
	x.Put("a", s)
	for range 17 {
		_, ok = x.Get("a")
		require.True(t, ok, "a new ticket starts with all its attempts")
		x.Put("a", nil)
	}
}

// TestTicketsApart: clients that share a cache are independent unless address, name and pin are equal.
func TestTicketsApart(t *testing.T) {
	keys := map[string]bool{}
	for _, x := range []*tickets{{addr: "a:1"}, {addr: "a:2"}, {addr: "a:1", pin: [32]byte{1}}} {
		for _, server := range []string{"a", "b"} {
			keys[x.cacheKey(server)] = true
		}
	}
	assert.Len(t, keys, 6)
}

// FuzzTicketFile: no file makes TLS fail, other than by an error.
func FuzzTicketFile(f *testing.F) {
	now := time.Now()
	key := sha256.Sum256([]byte("k"))
	good, err := newTicketFile(key, realSession(f), now)
	require.NoError(f, err)
	var parts ticketFile
	require.NoError(f, json.Unmarshal(good, &parts))
	f.Add(parts.Ticket, parts.State)
	server := bytes.Clone(parts.State)
	server[2] = 1
	f.Add(parts.Ticket, server)
	f.Fuzz(func(t *testing.T, ticket, state []byte) {
		parts := parts
		parts.Ticket, parts.State = ticket, state
		b, err := json.Marshal(parts)
		require.NoError(t, err)
		s, err := parseTicketFile(b, key, now)
		if err != nil {
			return
		}
		q := tls.QUICClient(&tls.QUICConfig{TLSConfig: config(&one{s}), EnableSessionEvents: true})
		q.SetTransportParameters([]byte{})
		_ = q.Start(context.Background())
		for range 100 {
			if q.NextEvent().Kind == tls.QUICNoEvent {
				break
			}
		}
		_ = q.Close()
	})
}
