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

// TestTicketFolderBroken: an invalid or expired file is removed, and reading it is limited.
func TestTicketFolderBroken(t *testing.T) {
	now := time.Now()
	key := sha256.Sum256([]byte("k"))
	good, err := newTicketFile(key, realSession(t), now)
	require.NoError(t, err)
	changed := func(change func(*ticketFile)) []byte {
		f := good
		change(&f)
		return f.append(nil)
	}
	flipped := good.append(nil)
	flipped[len(flipped)/2] ^= 1
	server := bytes.Clone(good.state)
	server[2] = 1
	for name, b := range map[string][]byte{
		"empty":            {},
		"another kind":     []byte("hello"),
		"cut":              good.append(nil)[:200],
		"longer":           append(good.append(nil), 0),
		"a bit":            flipped,
		"too large":        make([]byte, 1<<20),
		"too large, valid": changed(func(f *ticketFile) { f.ticket = make([]byte, ticketLongest) }),
		"another gateway":  changed(func(f *ticketFile) { f.key[3]++ }),
		"another version":  changed(func(f *ticketFile) { f.program = "go1.2.3" }),
		"old":              changed(func(f *ticketFile) { f.made -= int64(ticketLasts/time.Second) + 2 }),
		"of the future":    changed(func(f *ticketFile) { f.made += 60 }),
		"no ticket":        changed(func(f *ticketFile) { f.ticket = nil }),
		"no state":         changed(func(f *ticketFile) { f.state = nil }),
		"state cut":        changed(func(f *ticketFile) { f.state = f.state[:len(f.state)/2] }),
		"of a server":      changed(func(f *ticketFile) { f.state = server }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := ticketFolder(held.TempDir(t))
			require.NoError(t, os.WriteFile(dir.file(key), b, 0o600))
			_, ok := dir.Get("k")
			assert.False(t, ok)
			left, err := os.ReadDir(string(dir))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
	dir := ticketFolder(held.TempDir(t))
	require.NoError(t, os.WriteFile(dir.file(key), good.append(nil), 0o600))
	_, ok := dir.Get("k")
	assert.True(t, ok, "and this is a ticket")
	require.NoError(t, os.Mkdir(dir.file(key), 0o700))
	_, ok = dir.Get("k")
	assert.False(t, ok, "a folder in its place")
	ticketFolder(filepath.Join(dir.file(key), "x")).Put("k", realSession(t))
	blocked := filepath.Join(held.TempDir(t), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	ticketFolder(blocked).Put("k", realSession(t)) // nowhere to write: the ticket is lost, without an error
}

// TestTicketAge: a ticket is valid from the second in which it was made until a week later.
func TestTicketAge(t *testing.T) {
	made := time.Unix(1_000_000, 0)
	f, err := newTicketFile([32]byte{}, realSession(t), made)
	require.NoError(t, err)
	for age, good := range map[time.Duration]bool{-1: false, 0: true, ticketLasts: true, ticketLasts + 1: false} {
		_, err := f.session([32]byte{}, made.Add(age))
		assert.Equal(t, good, err == nil, "after %v: %v", age, err)
	}
	dir := ticketFolder(held.TempDir(t))
	path := filepath.Join(string(dir), "a.ticket")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chtimes(path, made, made))
	dir.sweep(made.Add(ticketLasts))
	assert.FileExists(t, path)
	dir.sweep(made.Add(ticketLasts + 1))
	assert.NoFileExists(t, path)
}

// TestPin: a gateway without a certificate does not match the pin.
func TestPin(t *testing.T) {
	cert := &x509.Certificate{Raw: []byte("certificate")}
	pin := netproto.Digest(sha256.Sum256(cert.Raw))
	other := &x509.Certificate{Raw: []byte("another")}
	for i, c := range []struct {
		chain []*x509.Certificate
		have  netproto.Digest
		good  bool
	}{
		{nil, netproto.Digest{}, false}, {[]*x509.Certificate{cert, other}, pin, true},
		{[]*x509.Certificate{other, cert}, sha256.Sum256(other.Raw), false},
	} {
		err := verifyPin(pin, tls.ConnectionState{PeerCertificates: c.chain})
		if c.good {
			assert.NoError(t, err)
			continue
		}
		assert.Equal(t, &PinError{Want: pin, Have: c.have}, err, "%d", i)
		assert.EqualError(t, err,
			"the gateway's certificate has the fingerprint "+c.have.String()+", pinned is "+pin.String())
	}
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
			keys[x.key(server)] = true
		}
	}
	assert.Len(t, keys, 6)
}

// FuzzTicketFile: invalid bytes are refused; accepted bytes equal what would be written, and TLS can use them.
func FuzzTicketFile(f *testing.F) {
	now := time.Now()
	key := sha256.Sum256([]byte("k"))
	good, err := newTicketFile(key, realSession(f), now)
	require.NoError(f, err)
	whole := good.append(nil)
	f.Add(whole, false)
	f.Add(whole[:len(whole)-sha256.Size], true)
	f.Add(whole[:len(whole)/2], true)
	f.Add([]byte(ticketMagic), true)
	server := good
	server.state = bytes.Clone(good.state)
	server.state[2] = 1
	f.Add(server.append(nil), false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal { // so that the parser is reached
			sum := sha256.Sum256(b)
			b = append(bytes.Clone(b), sum[:]...)
		}
		file, err := parseTicketFile(b)
		if err != nil {
			require.ErrorIs(t, err, errTicket)
			return
		}
		require.True(t, bytes.Equal(b, file.append(nil)))
		s, err := file.session(file.key, time.Unix(file.made, 0))
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

// TestTicketHides: errors about a ticket contain nothing of it.
func TestTicketHides(t *testing.T) {
	f := ticketFile{program: "secret", ticket: []byte("secret"), state: []byte("secret")}
	_, err := f.session([32]byte{1}, time.Now())
	assert.NotContains(t, fmt.Sprint(err), "secret")
	_, err = f.session([32]byte{}, time.Now())
	assert.NotContains(t, fmt.Sprint(err), "secret")
}
