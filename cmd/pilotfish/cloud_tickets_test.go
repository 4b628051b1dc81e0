package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestReadTicketKeys: keys are read in hex and base64 in any spelling; anything else is refused by its line, and not
// repeated.
func TestReadTicketKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	key := func(first byte) engine.GatewayTicketKey { return engine.GatewayTicketKey{first, 0xfb, 0xff} }
	one, two := key(1), key(2)
	read := func(text string) ([]engine.GatewayTicketKey, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return readTicketKeys(file)
	}
	for _, spelled := range []string{fmt.Sprintf("%X", two), base64.StdEncoding.EncodeToString(two[:]),
		base64.RawStdEncoding.EncodeToString(two[:]), base64.URLEncoding.EncodeToString(two[:]),
		base64.RawURLEncoding.EncodeToString(two[:])} {
		keys, err := read(fmt.Sprintf("# newest first\n\n %s \r\n%x\n", spelled, one))
		require.NoError(t, err, spelled)
		assert.Equal(t, []engine.GatewayTicketKey{two, one}, keys)
	}
	eight := strings.Repeat(fmt.Sprintf("%x\n", one), 8)
	_, err := read(eight)
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":                               "there is no key in it",
		"#\n":                            "there is no key in it",
		"\ncanary":                       "line 2: write 32 random bytes",
		fmt.Sprintf("%x", one[:31]):      "line 1: write 32",
		fmt.Sprintf("%x", [32]byte{}):    "line 1: write 32",
		eight + fmt.Sprintf("%x\n", two): "line 9: more than 8 keys",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, "--ticket-key-file "+file)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "canary")
		assert.NotContains(t, err.Error(), fmt.Sprintf("%x", one[:31]))
	}
}

// TestKeptTicketKeys: a gateway's own keys are made once, renewed when they are a day old, and kept for as long as
// tickets live.
func TestKeptTicketKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "cloud.tickets")
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	keep := func(after time.Duration) []engine.GatewayTicketKey {
		now = now.Add(after)
		keys, err := keptTicketKeys(path, now)
		require.NoError(t, err)
		return keys
	}
	first := keep(0)
	require.Len(t, first, 1)
	assert.NotEqual(t, engine.GatewayTicketKey{}, first[0])
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.False(t, readableByOthers(info))
	assert.Equal(t, first, keep(23*time.Hour))
	second := keep(time.Hour)
	require.Len(t, second, 2)
	assert.Equal(t, first[0], second[1])
	assert.NotEqual(t, first[0], second[0])
	assert.Equal(t, second, keep(time.Hour), "the day begins anew")
	for range 6 {
		keep(24 * time.Hour)
	}
	week := keep(0)
	require.Len(t, week, 8)
	assert.Equal(t, first[0], week[7])
	later := keep(24 * time.Hour)
	require.Len(t, later, 8)
	assert.Equal(t, week[:7], later[1:])
	inside, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, inside, 1, "nothing else is left")

	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	_, err = keptTicketKeys(path, now)
	require.ErrorContains(t, err, "line 1: write 32")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	keys, err := keptTicketKeys(filepath.Join(file, "cloud.tickets"), now)
	var unkept *unkeptError
	require.ErrorAs(t, err, &unkept)
	assert.True(t, len(keys) <= 1)
}

// TestTicketsOutliveRestart: a device comes back to a gateway that was started anew without a round trip; to one with
// another --ticket-key-file it does not.
func TestTicketsOutliveRestart(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0")
	address := ""
	visit := func(args ...string) (early bool) {
		if address == "" {
			address = "127.0.0.1:0"
		}
		c := startedCloud(t, append([]string{"-m", m, "--listen", address, "--admin", "off"}, args...)...)
		address = c.address
		routedTokens(t, "-m", m, "--cloud", c.address, "--pin", c.pin, "--policy", "always", "--tokens", "1", "-n", "40",
			"--mode", "serial", "--deadline", "off", "--require-cloud")
		c.stop()
		return strings.Contains(c.errs.String(), "early=true")
	}
	assert.False(t, visit())
	assert.True(t, visit())
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte(strings.Repeat("42", 32)), 0o600))
	assert.False(t, visit("--ticket-key-file", keys))
	assert.True(t, visit("--ticket-key-file", keys))
}
