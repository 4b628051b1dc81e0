package cloud

import (
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

func TestParseToken(t *testing.T) {
	for line, want := range map[string]engine.GatewayToken{
		clitest.SecretA:          {Name: "line 1", Secret: clitest.SecretA},
		"a secret with spaces":   {Name: "line 1", Secret: "a secret with spaces"},
		"lab:" + clitest.SecretA: {Name: "lab", Secret: clitest.SecretA},
		"lab:" + clitest.SecretA + " rate=2.5 devices=7": {Name: "lab", Secret: clitest.SecretA, AskRate: 2.5,
			MaxDevices: 7},
		"a.b-c_1:x:" + clitest.SecretA + "\trate=2": {Name: "a.b-c_1", Secret: "x:" + clitest.SecretA, AskRate: 2},
		"lab:" + clitest.SecretA + " private devices=7": {Name: "lab", Secret: clitest.SecretA, MaxDevices: 7,
			Private: true},
	} {
		have, err := parseToken(line, "line 1")
		require.NoError(t, err, line)
		assert.Equal(t, want, have)
	}
	for _, limit := range []string{"rate=0", "rate=-1", "rate=NaN", "rate=1e10", "devices=-1", "devices=x"} {
		_, err := parseToken("lab:"+clitest.SecretA+" rate=2 "+limit, "line 1")
		assert.ErrorContains(t, err, `limit 2 of "lab": `, limit)
		assert.ErrorContains(t, err, "above 0", limit)
	}
}

// TestAccess: who may use a gateway, by its flags, the environment and its address.
func TestAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("lab:"+clitest.SecretA+" rate=5\n"), 0o600))
	lab := []engine.GatewayToken{{Name: "lab", Secret: clitest.SecretA, AskRate: 5}}
	device := []engine.GatewayToken{{Name: "device", Secret: clitest.SecretB}}
	loopback, far := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 7)}
	for _, c := range []struct {
		f        accessFlags
		variable string // "": not set
		listen   net.Addr
		want     []engine.GatewayToken
		say      string
	}{
		{accessFlags{given: true, file: file}, clitest.SecretB, loopback, lab, "an access token of " + file},
		{accessFlags{}, " " + clitest.SecretB + "\n", loopback, device, "the access token of PILOTFISH_TOKEN"},
		{accessFlags{}, "", loopback, nil, "open to programs on this machine"},
		{accessFlags{open: true}, "", far, nil, "open to every device"},
		{accessFlags{dry: true}, "", far, nil, "that is made on the first start"},
	} {
		t.Setenv(cli.TokenVariable, c.variable)
		if c.variable == "" {
			require.NoError(t, os.Unsetenv(cli.TokenVariable))
		}
		who, err := c.f.tokens(c.listen, filepath.Join(t.TempDir(), "none"))
		require.NoError(t, err)
		assert.Equal(t, c.want, who.tokens, c.say)
		assert.Contains(t, who.say, c.say)
		assert.False(t, who.made)
	}
}

// TestGarbagePercent: the additional garbage is limited to an eighth of the free memory, and to 1 GiB.
func TestGarbagePercent(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		free    uint64
		kv      int64
		percent int
	}{
		{8 * gib, 960 * mib, 100}, {800 * gib, 960 * mib, 100}, {4 * gib, 960 * mib, 50}, {8 * gib, 0, 1600},
		{8 * gib, 1984 * mib, 50}, {512 * mib, 0, 100}, {8 * mib, 64 * gib, 1}, {0, 0, 1},
	} {
		assert.Equal(t, c.percent, garbagePercent(c.free, c.kv), "%+v", c)
	}
}

// TestSpendMemory: GOGC is lower with a large KV store and higher with a small one, and is restored at the end. A GOGC
// set by the user is kept.
func TestSpendMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	require.NoError(t, os.Unsetenv("GOGC"))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	undo := spendMemory(1 << 20)
	small := clitest.GcPercent()
	undo()
	undo = spendMemory(64 << 30)
	large := clitest.GcPercent()
	undo()
	assert.Positive(t, large)
	assert.Less(t, large, 3)
	assert.Greater(t, small, large)
	assert.Equal(t, 100, clitest.GcPercent())
	t.Setenv("GOGC", "70")
	spendMemory(64 << 30)()
	assert.Equal(t, 100, clitest.GcPercent())
}

// TestLoopback: only loopback addresses are open by default.
func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.7": false,
	} {
		assert.Equal(t, want, isLoopback(&net.UDPAddr{IP: net.ParseIP(address), Port: 1}), address)
	}
	assert.False(t, isLoopback(&net.TCPAddr{IP: net.ParseIP("127.0.0.1")}))
}

// TestGreetForeign: no text of an engine can control the operator's terminal.
func TestGreetForeign(t *testing.T) {
	var out, errs strings.Builder
	greet(&cli.App{Stdout: &out, Stderr: &errs}, &net.UDPAddr{Port: 7}, netproto.Digest{1}, access{say: "open"},
		[]string{"engine a: vllm\x1b[2J serves b", "  a note"})
	assert.Equal(t, "listening on :7, open\nengine a: vllm␛[2J serves b\n  a note\n", errs.String())
	assert.Equal(t, "01"+strings.Repeat("00", 31)+"\n", out.String())
}
