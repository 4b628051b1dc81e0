package cloud

import (
	"context"
	"fmt"
	"log/slog"
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
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// reloading is a gateway whose settings can be reloaded.
type reloading struct {
	reloader
	said clitest.LockedBuffer
}

// startReloading starts a gateway with the settings of a command line. For its access it listens at an address.
func startReloading(t *testing.T, listen net.IP, args ...string) (r *reloading, visit func(secret string) error) {
	t.Helper()
	f, err := loaded(t, args...)
	require.NoError(t, err)
	r = &reloading{reloader: reloader{f: f, listen: &net.UDPAddr{IP: listen}, level: new(slog.LevelVar)}}
	var o gateway.Options
	_, err = f.setCredentials(&o, r.listen)
	require.NoError(t, err)
	r.g, err = gateway.New(o, answering{})
	require.NoError(t, err)
	r.log, r.open = slog.New(slog.NewTextHandler(&r.said, nil)), len(o.Tokens) == 0
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.g.Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, socket.Close())
	})
	return r, func(secret string) error {
		c, err := client.Dial(t.Context(), socket.LocalAddr().String(), client.Options{
			Identity: netproto.Identity{Vocab: 100}, Pin: r.g.Fingerprint(), Secret: netproto.Secret(secret)})
		if err != nil {
			return err
		}
		defer c.Close()
		s, err := c.NewSession(t.Context())
		if err == nil {
			_, err = s.Ask(t.Context(), terms.Question{Context: []int32{1, 2, 3}})
		}
		return err
	}
}

// reloaded reloads, and returns what the log says about it.
func (r *reloading) reloaded() string {
	before := len(r.said.String())
	r.reloadSettings()
	return r.said.String()[before:]
}

// assertUnchanged reloads, and checks that the log says why nothing changed.
func (r *reloading) assertUnchanged(t *testing.T, visit func(secret string) error, pin netproto.Digest, why string) {
	t.Helper()
	said := r.reloaded()
	assert.Contains(t, said, `level=ERROR msg="not reloaded: all settings are unchanged"`, why)
	assert.Contains(t, said, why)
	assert.NotContains(t, said, clitest.SecretB)
	assert.NotContains(t, said, "level=INFO")
	assert.NoError(t, visit(clitest.SecretA), why)
	assert.Error(t, visit(clitest.SecretB), why)
	assert.Equal(t, pin, r.g.Fingerprint())
	assert.Equal(t, slog.LevelInfo, r.level.Level())
}

// TestReload: a reload applies tokens, certificate, ticket keys and the log's level together. It names settings that
// need a restart, and with any error it changes nothing.
func TestReload(t *testing.T) {
	clitest.OwnFolders(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(file(name), []byte(text), 0o600)) }
	certificate := func() {
		certPEM, keyPEM, err := engine.NewCertificate()
		require.NoError(t, err)
		write("crt", string(certPEM))
		write("key", string(keyPEM))
	}
	files := fmt.Sprintf("cert: %s\nkey: %s\nticket-key-file: %s\n", file("crt"), file("key"), file("keys"))
	tokens := fmt.Sprintf("token-file: %s\n", file("tokens"))
	certificate()
	write("keys", strings.Repeat("42", 32))
	write("tokens", "lab:"+clitest.SecretA)
	write("yaml", files+tokens)
	r, visit := startReloading(t, net.IPv4(10, 0, 0, 7), "--config", file("yaml"), "--slots", "50")
	pin := r.g.Fingerprint()
	require.NoError(t, visit(clitest.SecretA))
	require.Error(t, visit(clitest.SecretB))

	unchanged := func(why string) {
		t.Helper()
		r.assertUnchanged(t, visit, pin, why)
	}
	certificate()
	write("tokens", "lab:"+clitest.SecretB)
	for text, want := range map[string]string{
		tokens + "log-level: debug\nlimit: {devices: many}": ":6: ",
		tokens + "speed: 1":           "is no setting",
		tokens + "log-level: loud":    `--log-level \"loud\" is not known`,
		"open: true":                  "no access token is left",
		tokens + "open: true":         "--open serves all devices",
		"token-file: " + file("none"): "--token-file",
	} {
		write("yaml", files+text)
		unchanged(want)
	}
	write("yaml", files+tokens+"log-level: debug\n")
	write("keys", "damaged")
	unchanged("write 32 random bytes")
	write("keys", strings.Repeat("43", 32)+"\n"+strings.Repeat("42", 32))
	write("tokens", "lab:"+clitest.SecretB+"\nlab:"+clitest.SecretB+"0")
	unchanged("two access tokens")
	write("tokens", "lab:"+clitest.SecretB)
	write("crt", "damaged")
	unchanged("--cert")

	certificate()
	write("yaml", files+tokens+"log-level: debug\nlimit: {devices: 5}\nslots: 60\n")
	said := r.reloaded()
	assert.Contains(t, said, "level=INFO msg=reloaded tokens=1 ticket_keys=2 certificate="+r.g.Fingerprint().String())
	assert.NotEqual(t, pin, r.g.Fingerprint())
	assert.Contains(t, said, `level=WARN msg="this has changed and needs a restart" flag=--limit`)
	assert.Equal(t, 1, strings.Count(said, "needs a restart"), "the command line still overrides the file")
	assert.Equal(t, slog.LevelDebug, r.level.Level())
	assert.NoError(t, visit(clitest.SecretB))
	assert.Error(t, visit(clitest.SecretA))
}

// TestReloadOpen: a gateway that is open to anybody stays so, and keeps its generated certificate and ticket keys. A
// reload creates no file.
func TestReloadOpen(t *testing.T) {
	clitest.OwnFolders(t)
	r, visit := startReloading(t, net.IPv4(127, 0, 0, 1))
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	pin := r.g.Fingerprint()
	for _, name := range []string{"cloud.tickets", "cloud.crt", "cloud.key"} {
		require.NoError(t, os.Remove(filepath.Join(config, "pilotfish", name)))
		assert.Contains(t, r.reloaded(), "msg=reloaded tokens=0 ticket_keys=0 certificate="+pin.String())
	}
	require.NoError(t, visit(""))
	left, err := os.ReadDir(filepath.Join(config, "pilotfish"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestCheckConfig: the check reads what a start reads, creates nothing, and says what is wrong.
func TestCheckConfig(t *testing.T) {
	clitest.OwnFolders(t)
	dir := t.TempDir()
	m, tokens := clitest.TinyModel(t, "q8_0"), filepath.Join(dir, "tokens")
	check := func(args ...string) (int, string, string) {
		return clitest.Call(t, append([]string{"cloud", "--check-config", "--token-file", tokens}, args...)...)
	}
	require.NoError(t, os.WriteFile(tokens, []byte("lab:"+clitest.SecretA), 0o644))
	code, stdout, stderr := check("-m", m)
	assert.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "all is right: "+m+" on :4433, for devices with an access token of "+tokens)
	info, err := os.Stat(tokens)
	require.NoError(t, err)
	assert.Equal(t, readableByOthers(info), strings.Contains(stderr, "can read a file with secrets"))
	_, stdout, _ = check("--upstream", "http://127.0.0.1:1", "--upstream", "http://127.0.0.1:2", "--tokenizer", m)
	assert.Contains(t, stdout, "all is right: 2 engines", "which are not asked")
	for want, args := range map[string][]string{
		"--listen :99999": {"-m", m, "--listen", ":99999"},
		"--model: ":       {"-m", filepath.Join(dir, "none")},
		"--admin":         {"-m", m, "--admin", "nowhere"},
		"none.gguf":       {"--upstream", "http://127.0.0.1:1", "--tokenizer", filepath.Join(dir, "none.gguf")},
	} {
		code, stdout, stderr := check(args...)
		assert.NotEqual(t, cli.ExitDone, code, want)
		assert.Contains(t, stderr, want)
		assert.Empty(t, stdout)
	}
	require.NoError(t, os.WriteFile(tokens, []byte("lab:"+clitest.SecretA+"\nlab:"+clitest.SecretB), 0o644))
	code, _, stderr = check("-m", m)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, `two access tokens have the name "lab"`)
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(config, "pilotfish"))
}
