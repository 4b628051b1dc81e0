//go:build !windows

package cloud

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// certificateIn writes a new certificate and its key.
func certificateIn(t *testing.T, cert, key string) {
	t.Helper()
	certPEM, keyPEM, err := engine.NewCertificate()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(key, keyPEM, 0o600))
}

// TestReload: SIGHUP reloads tokens, certificate, ticket keys and log level, names settings that need a restart, and
// changes nothing if there is an error.
func TestReload(t *testing.T) {
	clitest.OwnFolders(t)
	m, dir := clitest.TinyModel(t, "q8_0"), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(file(name), []byte(text), 0o600)) }
	config := func(more string) {
		write("cloud.yaml", fmt.Sprintf("cert: %s\nkey: %s\nticket-key-file: %s\n%s",
			file("crt"), file("key"), file("keys"), more))
	}
	const tokenA = "tokens: [{name: lab, secret: " + clitest.SecretA + "}]\n"
	const tokenB = "tokens: [{name: lab, secret: " + clitest.SecretB + "}]\n"
	certificateIn(t, file("crt"), file("key"))
	write("keys", strings.Repeat("42", 32))
	config(tokenA)
	c := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--admin", "off", "--config", file("cloud.yaml"))
	visit := func(secret, pin string) int {
		t.Setenv("PILOTFISH_TOKEN", secret)
		code, _, _ := clitest.Call(t, "run", "-m", m, "--cloud", c.Address, "--pin", pin, "--policy", "always",
			"--tokens", "1",
			"-n", "3", "--deadline", "off", "--require-cloud", "--no-resume")
		require.NoError(t, os.Unsetenv("PILOTFISH_TOKEN"))
		return code
	}
	done := 0
	reload := func(want string) string {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		done++
		for {
			said := c.Errs.String()
			if n := strings.Count(said, "msg=reloaded") + strings.Count(said, `msg="not reloaded`); n == done {
				all := strings.Split(strings.TrimSpace(said), "\n")
				for len(all) > 0 && !strings.Contains(all[len(all)-1], "reloaded") {
					all = all[:len(all)-1]
				}
				assert.Contains(t, all[len(all)-1], want)
				return all[len(all)-1]
			}
			time.Sleep(time.Millisecond)
		}
	}
	assert.Equal(t, cli.ExitDone, visit(clitest.SecretA, c.Pin))
	assert.Equal(t, cli.ExitFailed, visit(clitest.SecretB, c.Pin))

	for text, want := range map[string]string{
		tokenB + "limit: {questions: many}": ":5: ", tokenB + "speed: 1": "is no setting",
		"tokens: []":               "write a list",
		tokenB + "log-level: loud": `--log-level \"loud\"`, "log-level: debug": "no access token is left",
		tokenB + "token-file: x": "keep one of them",
	} {
		config(text)
		line := reload(want)
		assert.Contains(t, line, `level=ERROR msg="not reloaded: all settings are unchanged"`)
		assert.NotContains(t, line, clitest.SecretB)
		assert.Equal(t, cli.ExitDone, visit(clitest.SecretA, c.Pin), text)
	}
	config(tokenB)
	write("keys", "damaged")
	reload("write 32 random bytes")
	write("keys", strings.Repeat("43", 32)+"\n"+strings.Repeat("42", 32))
	write("crt", "damaged")
	reload("--cert")
	assert.Equal(t, cli.ExitDone, visit(clitest.SecretA, c.Pin), "all or nothing")
	assert.Equal(t, cli.ExitFailed, visit(clitest.SecretB, c.Pin))

	certificateIn(t, file("crt"), file("key"))
	config(tokenB + "limit: {questions: 5}\nlog-level: debug\n")
	line := reload("level=INFO msg=reloaded tokens=1 ticket_keys=2 certificate=")
	_, pin, _ := strings.Cut(line, "certificate=")
	assert.NotEqual(t, c.Pin, pin)
	c.Says(t, `level=WARN msg="this has changed and needs a restart" flag=(--limit)`)
	assert.Equal(t, 1, strings.Count(c.Errs.String(), "needs a restart"))
	assert.Equal(t, cli.ExitFailed, visit(clitest.SecretB, c.Pin), "the certificate has changed")
	assert.NotContains(t, c.Errs.String(), "level=DEBUG")
	assert.Equal(t, cli.ExitDone, visit(clitest.SecretB, pin))
	assert.Equal(t, cli.ExitFailed, visit(clitest.SecretA, pin))
	c.Says(t, `level=DEBUG msg=(answered)`)

	early := func() int {
		t.Setenv("PILOTFISH_TOKEN", clitest.SecretB)
		clitest.RoutedTokens(t, "-m", m, "--cloud", c.Address, "--pin", pin, "--policy", "always", "--tokens", "1",
			"-n", "40",
			"--mode", "serial", "--deadline", "off", "--require-cloud")
		return strings.Count(c.Errs.String(), "early=true")
	}
	assert.Zero(t, early())
	assert.Equal(t, 1, early())
	write("keys", strings.Repeat("44", 32))
	reload("ticket_keys=1")
	assert.Equal(t, 1, early(), "the key of its ticket is gone")
	assert.Equal(t, 2, early())
	c.Stop()
}

// TestReloadOpen: a gateway that is open to anybody stays so after SIGHUP, and keeps its generated certificate and
// ticket keys.
func TestReloadOpen(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	c := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--admin", "off")
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(config, "pilotfish", "cloud.tickets")))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	assert.Equal(t, c.Pin, c.Says(t, `msg=reloaded tokens=0 ticket_keys=0 certificate=(\w+)`))
	clitest.RoutedTokens(t, "-m", m, "--cloud", c.Address, "--pin", c.Pin, "--policy", "always", "--tokens", "1",
		"-n", "3",
		"--deadline", "off", "--require-cloud")
	assert.NoFileExists(t, filepath.Join(config, "pilotfish", "cloud.tickets"), "a reload creates nothing")
}
