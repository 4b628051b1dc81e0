package qlog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// talk connects two sides that log to folders, which may be nil, and sends a text each way.
func talk(t *testing.T, client, server *Folder, text string) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, about, about, public, key)
	require.NoError(t, err)
	pair := tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer socket.Close()
	here := &quic.Transport{Conn: socket, StatelessResetKey: new(quic.StatelessResetKey)}
	l, err := here.Listen(&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"test"}},
		&quic.Config{Tracer: server.Tracer()})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept(t.Context())
		if err == nil {
			var s *quic.Stream
			if s, err = c.AcceptStream(t.Context()); err == nil {
				_, err = s.Write([]byte(text))
				_ = s.Close()
			}
			<-c.Context().Done()
		}
		served <- err
	}()
	c, err := quic.DialAddr(t.Context(), socket.LocalAddr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"test"}}, &quic.Config{Tracer: client.Tracer()})
	require.NoError(t, err)
	s, err := c.OpenStream()
	require.NoError(t, err)
	_, err = s.Write([]byte(text))
	require.NoError(t, err)
	b, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Equal(t, text, string(b))
	require.NoError(t, c.CloseWithError(0, ""))
	require.NoError(t, <-served)
	require.NoError(t, here.Close())
}

// TestFiles: each side of a connection has its own file, complete after Close. It contains no data of streams, and no
// token that gives access to the connection.
func TestFiles(t *testing.T) {
	folder := filepath.Join(held.TempDir(t), "made", "here")
	f, err := Open(folder)
	require.NoError(t, err)
	const text = "what a user says"
	talk(t, f, f, text)
	talk(t, f, nil, text)
	require.NoError(t, f.Close())
	info, err := os.Stat(folder)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "only the owner may read the files")
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	sides := map[string]int{}
	for _, path := range files {
		_, side, _ := strings.Cut(filepath.Base(path), "_")
		sides[side]++
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		records := bytes.Split(bytes.TrimSpace(b), []byte{qlogwriter.RecordSeparator})
		require.Greater(t, len(records), 10)
		names := map[string]bool{}
		for _, r := range records[1:] {
			var e struct{ Name string }
			require.NoError(t, json.Unmarshal(r, &e), "%s", r)
			names[e.Name] = true
		}
		for _, name := range []string{"packet_sent", "packet_received", "connection_closed"} {
			assert.True(t, names["transport:"+name], name)
		}
		assert.NotContains(t, string(b), text)
		assert.NotContains(t, string(b), hex.EncodeToString([]byte(text)))
		assert.Contains(t, string(b), `"new_connection_id"`)
		zeros := strings.Repeat("0", 32)
		assert.Equal(t, strings.Count(string(b), `"stateless_reset_token"`), strings.Count(string(b), zeros))
		assert.Equal(t, strings.Count(string(b), `"token"`), strings.Count(string(b), `"token":{"raw":{"data":""}`))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	assert.Equal(t, map[string]int{"client.sqlog": 2, "server.sqlog": 1}, sides)
}

// TestRedact: tokens are removed wherever quic-go would write them, and quic-go's own data are not changed.
func TestRedact(t *testing.T) {
	secret := bytes.Repeat([]byte{0xab}, 16)
	reset := [16]byte(secret)
	header := qlog.PacketHeader{PacketType: qlog.PacketTypeInitial, Token: &qlog.Token{Raw: secret}}
	all := []qlog.Frame{{Frame: &qlog.PingFrame{}}, {Frame: &qlog.NewTokenFrame{Token: secret}},
		{Frame: &qlog.NewConnectionIDFrame{SequenceNumber: 7, StatelessResetToken: reset}}}
	token := qlog.ParametersSet{}
	token.StatelessResetToken = &(&qlog.PreferredAddress{StatelessResetToken: reset}).StatelessResetToken
	token.PreferredAddress = &qlog.PreferredAddress{StatelessResetToken: reset}
	events := []qlogwriter.Event{
		qlog.PacketSent{Header: header, Frames: all}, qlog.PacketReceived{Header: header, Frames: all},
		qlog.PacketBuffered{Header: header}, qlog.PacketDropped{Header: header}, qlog.PacketLost{Header: header}, token,
	}
	written := func(clean func(qlogwriter.Event) qlogwriter.Event) string {
		to := &closing{done: make(chan struct{})}
		s := qlogwriter.NewFileSeq(to)
		go s.Run()
		r := s.AddProducer()
		for _, e := range events {
			r.RecordEvent(clean(e))
		}
		require.NoError(t, r.Close())
		<-to.done
		return to.String()
	}
	whole := written(func(e qlogwriter.Event) qlogwriter.Event { return e })
	require.GreaterOrEqual(t, strings.Count(whole, hex.EncodeToString(secret)), 2+2+2+2, "%s", whole)
	clean := written(redact)
	assert.NotContains(t, clean, hex.EncodeToString(secret))
	assert.Equal(t, strings.Count(whole, `"name"`), strings.Count(clean, `"name"`), "no event is lost")
	assert.Contains(t, clean, `"sequence_number":7`)
	assert.Equal(t, secret, all[1].Frame.(*qlog.NewTokenFrame).Token, "the packet itself is not changed")
	assert.EqualValues(t, reset, all[2].Frame.(*qlog.NewConnectionIDFrame).StatelessResetToken)
	assert.EqualValues(t, reset, *token.StatelessResetToken)
	assert.EqualValues(t, reset, token.PreferredAddress.StatelessResetToken)
	other := qlog.PTOCountUpdated{PTOCount: 3}
	assert.Equal(t, qlogwriter.Event(other), redact(other))
}

type closing struct {
	bytes.Buffer
	done chan struct{}
}

func (c *closing) Close() error { close(c.done); return nil }

// TestNeverOverwrites: files are not overwritten: an existing name gets a number.
func TestNeverOverwrites(t *testing.T) {
	folder := held.TempDir(t)
	id := quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4})
	path := filepath.Join(folder, "01020304_client.sqlog")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	for range 2 {
		f, err := Open(folder)
		require.NoError(t, err)
		for _, isClient := range []bool{true, false} {
			require.NoError(t, f.Tracer()(context.Background(), isClient, id).AddProducer().Close())
		}
		require.NoError(t, f.Close())
	}
	mine, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(mine))
	files, err := filepath.Glob(filepath.Join(folder, "*.sqlog"))
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimPrefix(filepath.Base(f), "01020304_"))
	}
	want := []string{"client.sqlog", "client-2.sqlog", "client-3.sqlog", "server.sqlog", "server-2.sqlog"}
	assert.ElementsMatch(t, want, names)
}

// TestErrors: if writing fails the connection continues, and Close returns the error.
func TestErrors(t *testing.T) {
	file := filepath.Join(held.TempDir(t), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file)
	assert.Error(t, err)

	folder := filepath.Join(held.TempDir(t), "gone")
	f, err := Open(folder)
	require.NoError(t, err)
	require.NoError(t, os.Remove(folder))
	talk(t, f, f, "x")
	err = f.Close()
	require.Error(t, err)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.Contains(t, err.Error(), "qlog")

	var none *Folder
	assert.Nil(t, none.Tracer())
	assert.NoError(t, none.Close())

	to, err := os.Create(filepath.Join(held.TempDir(t), "full"))
	require.NoError(t, err)
	require.NoError(t, to.Close()) // writing to it fails from now on
	f = &Folder{}
	f.open.Add(1)
	w := newFile(f, to)
	_, err = fmt.Fprint(w, "x")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for range 2 {
		assert.ErrorIs(t, f.Close(), os.ErrClosed)
	}
	f.fail(io.ErrShortWrite)
	assert.NotErrorIs(t, f.Close(), io.ErrShortWrite, "the first error is returned")

	to, err = os.Open(file) // it cannot be written
	require.NoError(t, err)
	f = &Folder{}
	f.open.Add(1)
	w = newFile(f, to)
	_, err = fmt.Fprint(w, "x")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.Error(t, f.Close())
	assert.ErrorIs(t, to.Close(), os.ErrClosed, "the file is closed although its end could not be written")
}

// TestCloseWaits: Close returns when the last file is complete; a trace records nothing after its connection.
func TestCloseWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, err := Open(held.TempDir(t))
		require.NoError(t, err)
		trace := f.Tracer()(t.Context(), true, quic.ConnectionIDFromBytes([]byte{1}))
		connection := trace.AddProducer()
		closed := false
		go func() {
			assert.NoError(t, f.Close())
			closed = true
		}()
		synctest.Wait()
		assert.False(t, closed)
		require.NoError(t, connection.Close())
		synctest.Wait()
		assert.True(t, closed)
		assert.Nil(t, trace.AddProducer())
	})
}
