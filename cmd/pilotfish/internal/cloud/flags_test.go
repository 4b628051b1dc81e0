package cloud

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
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
		"lab:" + clitest.SecretA + " share weight=3": {Name: "lab", Secret: clitest.SecretA, Share: true, Weight: 3},
	} {
		have, err := parseToken(line, "line 1")
		require.NoError(t, err, line)
		assert.Equal(t, want, have)
	}
	for _, limit := range []string{"rate=0", "rate=-1", "rate=NaN", "rate=1e10", "devices=-1", "devices=x", "weight=0",
		"weight=257"} {
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
		name     string
		f        accessFlags
		variable string // "": not set
		listen   net.Addr
		want     []engine.GatewayToken
		say      string
	}{
		{"a file and the variable", accessFlags{given: true, file: file}, clitest.SecretB, loopback, lab,
			"an access token of " + file},
		{"the variable", accessFlags{}, " " + clitest.SecretB + "\n", loopback, device,
			"the access token of PILOTFISH_TOKEN"},
		{"loopback", accessFlags{}, "", loopback, nil, "open to programs on this machine"},
		{"open", accessFlags{open: true}, "", far, nil, "open to every device"},
		{"a dry run", accessFlags{dry: true}, "", far, nil, "that is made on the first start"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(cli.TokenVariable, c.variable)
			if c.variable == "" {
				require.NoError(t, os.Unsetenv(cli.TokenVariable))
			}
			who, err := c.f.decideAccess(c.listen, filepath.Join(t.TempDir(), "none"))
			require.NoError(t, err)
			assert.Equal(t, c.want, who.tokens, c.say)
			assert.Contains(t, who.say, c.say)
			assert.False(t, who.made)
		})
	}
	kept := filepath.Join(t.TempDir(), "new", "token")
	for made := range 2 {
		who, err := accessFlags{}.decideAccess(far, kept)
		require.NoError(t, err)
		require.Len(t, who.tokens, 1)
		assert.Equal(t, made == 0, who.made, "the operator sees it once")
		b, err := os.ReadFile(kept)
		require.NoError(t, err)
		assert.Equal(t, string(who.tokens[0].Secret)+"\n", string(b))
		assert.Len(t, string(who.tokens[0].Secret), 32, "24 random bytes in base64")
		info, err := os.Stat(kept)
		require.NoError(t, err)
		assert.False(t, readableByOthers(info))
	}
}

// TestTokenRefused: a token that is short, double or contradicts --open is refused, and no message shows a secret.
func TestTokenRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	given, far := accessFlags{given: true, file: file}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 7)}
	const a, b = clitest.SecretA, clitest.SecretB
	for _, c := range []struct {
		name                    string
		f                       accessFlags
		content, variable, want string
	}{
		{"only comments", given, " \n# nothing\n\n", "unset", "it has no access token"},
		{"no file", accessFlags{given: true, file: file + "x"}, "", "unset", "--token-file: open"},
		{"an empty variable", accessFlags{}, "", "", "PILOTFISH_TOKEN has 0 bytes: give at least 16, or unset it"},
		{"a short variable", accessFlags{}, "", a[1:] + "\n", "PILOTFISH_TOKEN has 15 bytes"},
		{"a short token", given, "lab:" + a + "\nnext:" + b[1:] + "\n", "unset",
			"line 2: the access token has 15 bytes"},
		{"a wrong limit", given, "\nlab:" + a + " rate=fast\n", "unset",
			`line 2: limit 1 of "lab": rate needs a number above 0`},
		{"two tokens in a line", given, "lab:" + a + " " + b + "\n", "unset",
			"write rate=N, devices=N, weight=N, private or share"},
		{"a file and --open", accessFlags{given: true, file: file, open: true}, "lab:" + a, "unset",
			"--open serves all devices"},
		{"a variable and --open", accessFlags{open: true}, "", a, "--open serves all devices"},
		{"nowhere to store one", accessFlags{}, "", "unset", "the access token cannot be stored"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
			if t.Setenv(cli.TokenVariable, c.variable); c.variable == "unset" {
				require.NoError(t, os.Unsetenv(cli.TokenVariable))
			}
			who, err := c.f.decideAccess(far, "")
			require.ErrorContains(t, err, c.want)
			assert.False(t, who.made)
			assert.NotContains(t, err.Error(), a[1:])
			assert.NotContains(t, err.Error(), b[1:])
		})
	}
	damaged := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(damaged, []byte("short"), 0o600))
	_, err := accessFlags{}.decideAccess(far, damaged)
	require.ErrorContains(t, err, "has 5 bytes", "it is not replaced")
}

// TestCloudModel: a gateway has one model. Flags of a model that runs here are named if they have no effect.
func TestCloudModel(t *testing.T) {
	for args, want := range map[string]struct{ stderr, err string }{
		"":                             {"", "there is no model"},
		"-m m --upstream u":            {"", "leave one of them out"},
		"-m m --threads 3":             {"", ""},
		"-m m --tokenizer t":           {"", "--tokenizer is for engines"},
		"--upstream u":                 {"", "an engine needs --tokenizer FILE"},
		"--upstream u --tokenizer t":   {"", ""},
		"--upstream u --ctx 5 --exact": {"no effect has --ctx, --exact\n", "an engine needs --tokenizer FILE"},
	} {
		var said strings.Builder
		c, f := newCloudCommand(&cli.App{})
		require.NoError(t, c.ParseFlags(strings.Fields(args)))
		err := f.checkModelFlags(c.Flags(), &said)
		if want.err == "" {
			require.NoError(t, err, args)
		} else {
			require.ErrorContains(t, err, want.err, args)
		}
		assert.Equal(t, want.stderr == "", said.Len() == 0, args)
		assert.Contains(t, said.String(), want.stderr)
	}
}

// TestCloudOwnCertificate: the key of the generated certificate is only readable by its owner, and a damaged one is
// not replaced. Without a folder to keep it in, one has to be given.
func TestCloudOwnCertificate(t *testing.T) {
	clitest.OwnFolders(t)
	dir := filepath.Join(t.TempDir(), "new")
	f := new(cloudCommandFlags)
	c, err := f.loadCertificate(dir)
	require.NoError(t, err)
	again, err := f.loadCertificate(dir)
	require.NoError(t, err)
	assert.Equal(t, c.Certificate, again.Certificate)
	info, err := os.Stat(filepath.Join(dir, "cloud.key"))
	require.NoError(t, err)
	assert.False(t, readableByOthers(info))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cloud.key"), []byte("damaged"), 0o600))
	_, err = f.loadCertificate(dir)
	require.Error(t, err)
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, "")
	}
	_, err = new(cloudCommandFlags).setCredentials(new(engine.GatewayOptions), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.ErrorContains(t, err, "give one with --cert and --key")
}

// TestLoopback: only loopback addresses are open by default.
func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.7": false,
	} {
		assert.Equal(t, want, isLoopbackAddr(&net.UDPAddr{IP: net.ParseIP(address), Port: 1}), address)
	}
	assert.False(t, isLoopbackAddr(&net.TCPAddr{IP: net.ParseIP("127.0.0.1")}))
}

// TestGreetForeign: no text of an engine can control the operator's terminal.
func TestGreetForeign(t *testing.T) {
	var out, errs strings.Builder
	printGreeting(&cli.App{Stdout: &out, Stderr: &errs}, &net.UDPAddr{Port: 7}, netproto.Digest{1},
		accessPolicy{say: "open"},
		[]string{"engine a: vllm\x1b[2J serves b", "  a note"})
	assert.Equal(t, "listening on :7, open\nengine a: vllm␛[2J serves b\n  a note\n", errs.String())
	assert.Equal(t, "01"+strings.Repeat("00", 31)+"\n", out.String())
	made := accessPolicy{made: true, tokens: []engine.GatewayToken{{Secret: clitest.SecretA}}}
	errs.Reset()
	printGreeting(&cli.App{Stdout: &out, Stderr: &errs}, &net.UDPAddr{Port: 7}, netproto.Digest{1}, made, nil)
	assert.Contains(t, errs.String(), "PILOTFISH_TOKEN="+clitest.SecretA+" pilotfish run -m SMALL.gguf --cloud HOST:7 "+
		"--pin 0100")
}
