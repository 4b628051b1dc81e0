package gateway_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// visit connects like a new process, asks, waits for the next ticket, and reports whether it used 0-RTT.
func visit(t *testing.T, g running, folder string, change func(*client.Options)) (early bool) {
	t.Helper()
	before := tickets(t, folder)
	c := dial(t, g, func(o *client.Options) {
		o.TicketFolder, o.Lazy = folder, true
		if change != nil {
			change(o)
		}
	})
	ask(t, session(t, c), path(20, 1))
	until(func() bool {
		fresh := slices.ContainsFunc(tickets(t, folder), func(b []byte) bool {
			return !slices.ContainsFunc(before, func(old []byte) bool { return bytes.Equal(b, old) })
		})
		return fresh && c.Welcome().Model != ""
	})
	require.NoError(t, c.Close())
	return c.Stats().Early == 1
}

// tickets returns the files of a folder.
func tickets(t *testing.T, folder string) (all [][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder,
		"????????????????????????????????????????????????????????????????.ticket"))
	require.NoError(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil { // otherwise it was removed in between
			all = append(all, b)
		}
	}
	return all
}

// TestResume: a new process resumes: its first ask needs no round trip before it. A ticket is used once.
func TestResume(t *testing.T) {
	up := &fake{}
	g := start(t, "", gateway.Options{}, up)
	folder := filepath.Join(held.TempDir(t), "new", "tickets")
	assert.False(t, visit(t, g, folder, nil))
	first := tickets(t, folder)
	require.Len(t, first, 1)
	for range 3 {
		assert.True(t, visit(t, g, folder, nil))
	}
	require.Len(t, tickets(t, folder), 1, "only the last one")
	if runtime.GOOS != "windows" {
		inside, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, inside, 1, "nothing else is left")
		info, err := inside[0].Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		info, err = os.Stat(folder)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
}

// TestResumeElsewhere: a ticket is used only for its own gateway: not with another pin, name or address.
func TestResumeElsewhere(t *testing.T) {
	g := start(t, "", gateway.Options{}, &fake{})
	other := start(t, "", gateway.Options{}, &fake{})
	folder := held.TempDir(t)
	assert.False(t, visit(t, g, folder, nil))
	kept := tickets(t, folder)

	_, err := client.Dial(t.Context(), g.addr,
		client.Options{Identity: identity(), Pin: other.Fingerprint(), TicketFolder: folder})
	var wrong *client.PinError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, kept, tickets(t, folder), "untouched")

	assert.False(t, visit(t, other, folder, nil))
	assert.Len(t, tickets(t, folder), 2)
	assert.False(t, visit(t, g, folder, func(o *client.Options) { o.ServerName = "another.name" }))
	assert.True(t, visit(t, g, folder, nil), "still there")

	// The ticket of one gateway under the file name of another.
	names, err := filepath.Glob(filepath.Join(folder, "*.ticket"))
	require.NoError(t, err)
	require.Len(t, names, 3)
	for _, to := range names {
		for _, b := range tickets(t, folder) {
			if have, err := os.ReadFile(to); err == nil && !bytes.Equal(have, b) {
				require.NoError(t, os.WriteFile(to, b, 0o600))
				break
			}
		}
	}
	assert.False(t, visit(t, g, folder, nil))
}

// TestResumeRestarted: a restarted gateway cannot read its old tickets: the client makes a full handshake.
func TestResumeRestarted(t *testing.T) {
	opt := gateway.Options{Certificate: keys(t)}
	g := start(t, "", opt, &fake{})
	folder := held.TempDir(t)
	assert.False(t, visit(t, g, folder, nil))
	g.stop()
	g = start(t, g.addr, opt, &fake{})
	assert.False(t, visit(t, g, folder, nil))
	assert.True(t, visit(t, g, folder, nil))
}

// TestResumeWrongKey: a ticket with a wrong key costs a few attempts, not sixteen.
func TestResumeWrongKey(t *testing.T) {
	g := start(t, "", gateway.Options{}, &fake{})
	folder := held.TempDir(t)
	assert.False(t, visit(t, g, folder, nil))
	b := tickets(t, folder)[0]
	at := len("pilotfish ticket 1\n") + 32 + 8
	for range 2 { // the parts before the state
		at += 4 + int(binary.LittleEndian.Uint32(b[at:]))
	}
	b[at+4+2+1+2+8+1] ^= 1 // the first byte of the secret: see tls.SessionState
	sum := sha256.Sum256(b[:len(b)-32])
	copy(b[len(b)-32:], sum[:])
	names, err := filepath.Glob(filepath.Join(folder, "*.ticket"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(names[0], b, 0o600))
	failed := 0 // counted by one goroutine, which has ended when the client is closed
	assert.False(t, visit(t, g, folder, func(o *client.Options) {
		o.Attempted = func(err error) {
			if err != nil {
				failed++
				t.Log(err)
			}
		}
	}))
	assert.Less(t, failed, 8)
	assert.True(t, visit(t, g, folder, nil))
}
