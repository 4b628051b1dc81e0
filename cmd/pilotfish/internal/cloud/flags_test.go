package cloud

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestCloudTokenRefused: an empty or invalid token keeps the gateway from starting, and no message shows a secret.
func TestCloudTokenRefused(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	file := filepath.Join(t.TempDir(), "tokens")
	for _, c := range []struct {
		name, content, variable string
		args                    []string
		code                    int
		want                    string
	}{
		{"empty file", "", "unset", []string{"--token-file", file}, cli.ExitFailed, "it has no access token"},
		{"blank file", " \n# nothing\n\n", "unset", []string{"--token-file", file}, cli.ExitFailed,
			"it has no access token"},
		{"no file", "", "unset", []string{"--token-file", ""}, cli.ExitUsage, `--token-file "" names no file`},
		{"absent file", "", "unset", []string{"--token-file", file + "x"}, cli.ExitFailed, "--token-file: open"},
		{"empty variable", "", "", nil, cli.ExitFailed, "PILOTFISH_TOKEN has 0 bytes: give at least 16, or unset it"},
		{"blank variable", "", "  \n", nil, cli.ExitFailed, "PILOTFISH_TOKEN has 0 bytes"},
		{"short variable", "", clitest.SecretA[1:] + "\n", nil, cli.ExitFailed, "PILOTFISH_TOKEN has 15 bytes"},
		{"one byte short", "lab:" + clitest.SecretA[1:] + "\n", "unset", []string{"--token-file", file}, cli.ExitFailed,
			"line 1: the access token has 15 bytes: give at least 16"},
		{"short", "secretsecret\n", "unset", []string{"--token-file", file}, cli.ExitFailed,
			"line 1: the access token has 12 bytes: give at least 16"},
		{"named, empty", "lab:\n", "unset", []string{"--token-file", file}, cli.ExitFailed,
			"line 1: the access token has 0 bytes"},
		{"limit", "\nlab:" + clitest.SecretA + " rate=fast\n", "unset", []string{"--token-file", file}, cli.ExitFailed,
			`line 2: limit 1 of "lab": rate needs a number above 0`},
		{"unknown limit", "lab:" + clitest.SecretA + " " + clitest.SecretB + "\n", "unset", []string{"--token-file",
			file}, cli.ExitFailed,
			"write rate=N, burst=N, devices=N or private"},
		{"private or not", "lab:" + clitest.SecretA + " rate=2 private=yes\n", "unset", []string{"--token-file", file},
			cli.ExitFailed, `line 1: limit 2 of "lab": write rate=N`},
		{"burst alone", "lab:" + clitest.SecretA + " burst=5\n", "unset", []string{"--token-file", file},
			cli.ExitFailed,
			"burst needs a rate"},
		{"same name", "lab:" + clitest.SecretA + "\nlab:" + clitest.SecretB, "unset", []string{"--token-file", file},
			cli.ExitFailed,
			`two access tokens have the name "lab"`},
		{"open and closed", "", "unset", []string{"--open", "--token-file", file}, cli.ExitUsage,
			"--open serves all devices"},
		{"open and variable", "", clitest.SecretA, []string{"--open"}, cli.ExitUsage, "--open serves all devices"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
			if t.Setenv("PILOTFISH_TOKEN", c.variable); c.variable == "unset" {
				require.NoError(t, os.Unsetenv("PILOTFISH_TOKEN"))
			}
			code, stdout, stderr := clitest.Call(t, append([]string{"cloud", "-m", m, "--listen", "127.0.0.1:0"},
				c.args...)...)
			assert.Equal(t, c.code, code, stderr)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, c.want)
			for _, secret := range []string{clitest.SecretA, clitest.SecretB, "secretsecret"} {
				assert.NotContains(t, stderr, secret)
			}
		})
	}
}

func TestParseToken(t *testing.T) {
	for line, want := range map[string]engine.GatewayToken{
		clitest.SecretA:          {Name: "line 1", Secret: clitest.SecretA},
		"a secret with spaces":   {Name: "line 1", Secret: "a secret with spaces"},
		"lab:" + clitest.SecretA: {Name: "lab", Secret: clitest.SecretA},
		"lab:" + clitest.SecretA + " rate=2.5 devices=7": {Name: "lab", Secret: clitest.SecretA, AskRate: 2.5,
			MaxDevices: 7},
		"a.b-c_1:x:" + clitest.SecretA + "\trate=2 burst=9": {Name: "a.b-c_1", Secret: "x:" + clitest.SecretA,
			AskRate: 2, AskBurst: 9},
		"lab:" + clitest.SecretA + " private devices=7": {Name: "lab", Secret: clitest.SecretA, MaxDevices: 7,
			Private: true},
	} {
		have, err := parseToken(line, "line 1")
		require.NoError(t, err, line)
		assert.Equal(t, want, have)
	}
	for _, limit := range []string{"rate=0", "rate=-1", "rate=NaN", "rate=1e10", "burst=0", "devices=-1", "devices=x"} {
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
	listed := []engine.GatewayToken{{Name: "listed", Secret: clitest.SecretB}}
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
		{accessFlags{listed: listed}, clitest.SecretA, loopback, listed, "of the configuration file"},
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
	kept := filepath.Join(t.TempDir(), "new", "token")
	for made := range 2 {
		who, err := accessFlags{}.tokens(far, kept)
		require.NoError(t, err)
		require.Len(t, who.tokens, 1)
		assert.Equal(t, made == 0, who.made)
		b, err := os.ReadFile(kept)
		require.NoError(t, err)
		assert.Equal(t, string(who.tokens[0].Secret)+"\n", string(b))
		assert.Len(t, string(who.tokens[0].Secret), 32, "24 random bytes in base64")
	}
}

// TestCloudMakesToken: on loopback no token is needed. On other addresses one is made at the first start and kept; with
// --open there is none.
func TestCloudMakesToken(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	kept := filepath.Join(config, "pilotfish", "cloud.token")
	start := func(args ...string) (address, pin, said string, stop func()) {
		return clitest.StartCloudSaying(t, append([]string{"-m", m, "--log", "off"}, args...)...)
	}
	_, _, said, stop := start("--listen", "127.0.0.1:0")
	stop()
	assert.Contains(t, said, "open to programs on this machine")
	assert.NoFileExists(t, kept)
	folder, err := os.Stat(filepath.Dir(kept))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), folder.Mode().Perm(), "the folder of the certificate")

	address, pin, said, stop := start("--listen", "0.0.0.0:0")
	const command = `PILOTFISH_TOKEN=(\S+) pilotfish run -m SMALL\.gguf --cloud HOST:(\d+) --pin ([0-9a-f]{64}) `
	line := regexp.MustCompile(command).FindStringSubmatch(said)
	require.NotNil(t, line, said)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	assert.Equal(t, []string{port, pin}, line[2:])
	info, err := os.Stat(kept)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	run := []string{"-m", m, "--cloud", "127.0.0.1:" + port, "--pin", pin, "--policy", "always", "--tokens", "1",
		"-n", "3", "--deadline", "off"}
	code, _, stderr := clitest.Call(t, append([]string{"run"}, run...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "access token")
	t.Setenv("PILOTFISH_TOKEN", line[1])
	_, origins, _, _ := clitest.RoutedTokens(t, run...)
	assert.Contains(t, origins, "cloud")
	require.NoError(t, os.Unsetenv("PILOTFISH_TOKEN"))
	stop()

	_, pin2, said, stop := start("--listen", "0.0.0.0:0")
	stop()
	assert.Equal(t, pin, pin2)
	assert.NotContains(t, said, line[1], "it is shown only once")
	assert.Contains(t, said, kept)

	_, _, said, stop = start("--listen", "0.0.0.0:0", "--open")
	stop()
	assert.Contains(t, said, "open to every device that can reach it")
}

// TestCloudSizes: the service has the requested sizes.
func TestCloudSizes(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	_, _, said, stop := clitest.StartCloudSaying(t, "-m", m, "--listen", "127.0.0.1:0", "--ctx", "50",
		"--slots", "777", "--limit", "rows=33")
	stop()
	assert.Contains(t, said,
		"memory for 777 tokens of all devices together, that is for 15 devices with a full context of 50 tokens")
	assert.Contains(t, said, "steps of at most 33 new tokens")
	code, _, stderr := clitest.Call(t, "cloud", "-m", m, "--listen", "127.0.0.1:0", "--ctx", "50", "--slots", "49")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "memory for 49 tokens is less than one context of 50 tokens")
}

// TestLimitFlagsRefused: invalid values are refused with the name of the flag.
func TestLimitFlagsRefused(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	for _, c := range [][2]string{
		{"--limit=max-connections=0", "--limit max-connections=0"}, {"--limit=max-sessions=-5",
			"--limit max-sessions=-5"},
		{"--limit=device-rate=NaN", "--limit device-rate=NaN"}, {"--limit=device-rate=+Inf",
			"--limit device-rate=+Inf"},
		{"--limit=question-timeout=0s", "--limit question-timeout=0s"}, {"--limit=drain=-1s", "--limit drain=-1s"},
		{"--limit=ahead-limit=-1", "--limit ahead-limit=-1: give a number from 0 to 64"},
		{"--limit=ahead-limit=65", "--limit ahead-limit=65: give a number from 0 to 64"},
		{"--limit=device-burst=5", "--limit device-burst=N needs device-rate=N"}, {"--dictionary=x",
			`--dictionary "x"`},
		{"--log=loud", "--log loud"}, {"--slots=-1", "--slots -1"}, {"--limit=rows=-1", "rows=-1"},
		{"--key=x", "--cert and --key belong together"}, {"--cert=x", "--cert and --key belong together"},
		{"--limit=max-context=0", "--limit max-context=0: give a number from 1 to 1000000000"},
		{"--limit=max-questions=1000000001", "--limit max-questions=1000000001"}, {"--limit=device-rate=0",
			"--limit device-rate=0"},
		{"--limit=device-rate=1e10", "--limit device-rate=1e+10"}, {"--limit=session-idle=0s",
			"--limit session-idle=0s: give a time above 0"},
	} {
		code, _, stderr := clitest.Call(t, "cloud", "-m", m, "--listen", "127.0.0.1:0", c[0])
		assert.Equal(t, cli.ExitUsage, code, c[0])
		assert.Contains(t, stderr, c[1])
	}
	for _, limit := range []string{"max-questions=1", "max-questions=1000000000", "device-rate=1e9", "device-rate=1e-9",
		"ahead-limit=0", "ahead-limit=64", "drain=1ns", "rows=0"} {
		c, f := cloudCommand(&cli.App{})
		require.NoError(t, c.ParseFlags([]string{"--limit", limit}))
		require.NoError(t, cli.CheckSpans(c.Flags()))
		_, err := f.options()
		assert.NoError(t, err, limit)
	}
	code, _, stderr := clitest.Call(t, "cloud", "-m", m, "--listen", "127.0.0.1:99999")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "--listen 127.0.0.1:99999")
}

// tinyVocab returns the size of the vocabulary of tinyModel's tokenizer.
func tinyVocab(t *testing.T) int {
	t.Helper()
	e, err := engine.Open(clitest.TinyModel(t, "q8_0"), engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	id, err := e.Identity()
	require.NoError(t, err)
	return id.Vocab
}

// TestCloudDictionary: a dictionary from the command line is offered to devices, and shortens the questions of those
// that have it.
func TestCloudDictionary(t *testing.T) {
	clitest.OwnFolders(t)
	var samples [][]int32
	var typical string
	for i := range int32(20) {
		var p []int32
		typical = ""
		for n := range int32(60) {
			p = append(p, (n*n*7+n*31)%500)
			typical += fmt.Sprintf("%d,", p[n])
		}
		samples = append(samples, append(p, i))
	}
	typical += "3"
	d, err := netproto.TrainDictionary(7, tinyVocab(t), samples)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "dictionary")
	require.NoError(t, os.WriteFile(file, d.Bytes, 0o600))
	m := clitest.TinyModel(t, "q8_0")
	t.Setenv("PILOTFISH_TOKEN", clitest.SecretA)
	address, pin, _ := clitest.StartCloud(t, "-m", m, "--dictionary", "7:"+file, "--log", "off")
	up := func(args ...string) int {
		_, _, s, _ := clitest.RoutedTokens(t, append([]string{"-m", m, "--cloud", address, "--pin", pin, "--policy",
			"always",
			"--mode", "serial", "--deadline", "off", "-n", "1", "--tokens", typical}, args...)...)
		return s.BytesUp
	}
	assert.Less(t, up("--dictionary", "7:"+file), up()-20)

	read, err := group.ReadDictionaries([]string{"7:" + file})
	require.NoError(t, err)
	assert.Equal(t, []netproto.Dictionary{d}, read)
	for _, wrong := range []string{"0:" + file, "7", "7:", "seven:" + file, strings.Repeat("9", 30) + ":" + file} {
		_, err := group.ReadDictionaries([]string{wrong})
		assert.ErrorContains(t, err, "write NUMBER:FILE")
	}
}

// TestWatchRecomputing: recomputed texts are reported in the period in which they occur, and in no other.
func TestWatchRecomputing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out clitest.LockedBuffer
		var now atomic.Pointer[engine.ServiceStats]
		now.Store(&engine.ServiceStats{Slots: 9, Computed: 100, Recomputed: 7})
		stop := watchRecomputing(func() engine.ServiceStats { return *now.Load() },
			slog.New(slog.NewTextHandler(&out, nil)))
		time.Sleep(31 * time.Second)
		synctest.Wait()
		assert.Empty(t, out.String(), "that was before")
		now.Store(&engine.ServiceStats{Slots: 9, Sessions: 3, Computed: 150, Recomputed: 27})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		said := out.String()
		assert.Contains(t, said, "level=WARN")
		assert.Contains(t, said, "raise --slots")
		assert.Contains(t, said, "computed_again=20 computed=50 seconds=30 slots=9 sessions=3")
		time.Sleep(300 * time.Second)
		synctest.Wait()
		assert.Equal(t, said, out.String())
		stop()
	})
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

// TestCloudLog: --log selects the format of the log on stderr.
func TestCloudLog(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	for form, want := range map[string]string{"text": `(?m)^time=\S+ level=\S+ msg=`, "json": `(?m)^{"time":`,
		"off": ""} {
		c := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--log", form)
		clitest.RoutedTokens(t, "-m", m, "--cloud", c.Address, "--pin", c.Pin, "--policy", "always", "--tokens", "1",
			"-n", "2",
			"--deadline", "off")
		c.Stop()
		if log := strings.TrimPrefix(c.Errs.String(), c.Said); want == "" {
			assert.Empty(t, log)
		} else {
			assert.Regexp(t, want, log)
		}
	}
}

// TestCloudLookup: guesses from the text change only the number of passes; --lookup limits or disables them.
func TestCloudLookup(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	line := regexp.MustCompile(`msg=computed tokens=(\d+) passes=(\d+) lookup_proposed=(\d+) lookup_accepted=(\d+)`)
	do := func(args ...string) (ids []int32, tokens, passes, proposed, accepted int) {
		c := clitest.StartedCloud(t, append([]string{"-m", m, "--listen", "127.0.0.1:0"}, args...)...)
		ids, _, _, _ = clitest.RoutedTokens(t, "-m", m, "--cloud", c.Address, "--pin", c.Pin, "--policy", "always",
			"--mode", "serial", "--tokens", "1,2,3,4,1,2,3,4,1,2,3,4", "-n", "60", "--deadline", "off",
			"--require-cloud")
		c.Stop()
		said := line.FindStringSubmatch(c.Errs.String())
		require.NotNil(t, said, c.Errs.String())
		_, err := fmt.Sscan(strings.Join(said[1:], " "), &tokens, &passes, &proposed, &accepted)
		require.NoError(t, err)
		return ids, tokens, passes, proposed, accepted
	}
	want, tokens, all, proposed, _ := do("--lookup", "off")
	assert.Len(t, want, 60)
	assert.Zero(t, proposed)
	sum := 0
	for _, args := range [][]string{nil, {"--lookup", "auto"}, {"--lookup", "2"}, {"--lookup", "8"}} {
		ids, computed, passes, proposed, accepted := do(args...)
		assert.Equal(t, want, ids, args)
		assert.LessOrEqual(t, accepted, proposed, args)
		assert.LessOrEqual(t, passes, all, args)
		assert.Equal(t, tokens+proposed-accepted, computed, args)
		if slices.Contains(args, "2") {
			assert.LessOrEqual(t, proposed, passes, "one guess in addition to the requested token")
		}
		sum += accepted // the number of guesses depends on the time of passes
	}
	assert.Positive(t, sum)
	assert.Equal(t, "auto", NewCommand(&cli.App{}).Flags().Lookup("lookup").DefValue)
}

// TestCloudSharesPrefixes: the common prefix of two devices is computed once, unless --share-prefixes=false or a
// private token separates them. The answers are the same.
func TestCloudSharesPrefixes(t *testing.T) {
	clitest.OwnFolders(t)
	m, file := clitest.TinyModel(t, "q8_0"), filepath.Join(t.TempDir(), "tokens")
	e, err := engine.Open(m, engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	line := regexp.MustCompile(`msg=computed tokens=(\d+) .* shared=(\d+)`)
	do := func(word string, args ...string) (ids []int32, computed, shared int) {
		require.NoError(t, os.WriteFile(file, []byte("lab:"+clitest.SecretA+" "+word+"\n"), 0o600))
		args = append([]string{"-m", m, "--listen", "127.0.0.1:0", "--token-file", file}, args...)
		c := clitest.StartedCloud(t, args...)
		pin, err := netproto.ParseDigest(c.Pin)
		require.NoError(t, err)
		for i := range int32(2) { // each stays connected until both have asked
			r, err := e.Dial(t.Context(), c.Address, engine.DialOptions{Pin: pin, Secret: clitest.SecretA})
			require.NoError(t, err)
			defer r.Close()
			cloud, end, err := r.Session(t.Context())
			require.NoError(t, err)
			defer end()
			a, err := cloud.Ask(t.Context(), draft.Question{Context: []int32{1, 2, 3, 4, 5, 6, 7, 8, i}})
			require.NoError(t, err)
			ids = append(ids, a.Token)
		}
		c.Stop()
		said := line.FindStringSubmatch(c.Errs.String())
		require.NotNil(t, said, c.Errs.String())
		_, err = fmt.Sscan(strings.Join(said[1:], " "), &computed, &shared)
		require.NoError(t, err)
		return ids, computed, shared
	}
	want, computed, shared := do("")
	assert.Equal(t, [2]int{8 + 2, 8}, [2]int{computed, shared})
	for _, c := range [][]string{{"", "--share-prefixes=false"}, {"private"}, {"private", "--share-prefixes"}} {
		ids, computed, shared := do(c[0], c[1:]...)
		assert.Equal(t, want, ids)
		assert.Equal(t, [2]int{2 * 9, 0}, [2]int{computed, shared}, c)
	}
}

// TestCloudCertificate: a given certificate is used; otherwise one is made at the first start, and its key is readable
// only by the owner.
func TestCloudCertificate(t *testing.T) {
	clitest.OwnFolders(t)
	m, dir := clitest.TinyModel(t, "q8_0"), t.TempDir()
	cert, key := filepath.Join(dir, "own.crt"), filepath.Join(dir, "own.key")
	certPEM, keyPEM, err := engine.NewCertificate()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(key, keyPEM, 0o600))
	block, _ := pem.Decode(certPEM)
	address, pin, stop := clitest.StartCloud(t, "-m", m, "--log", "off", "--cert", cert, "--key", key)
	assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(block.Bytes)), pin)
	ids, _, _, _ := clitest.RoutedTokens(t, "-m", m, "--cloud", address, "--pin", pin, "--policy", "always",
		"--tokens", "1",
		"-n", "2", "--deadline", "off", "--require-cloud")
	assert.Len(t, ids, 2)
	stop()
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(config, "pilotfish", "cloud.crt"))

	_, made, stop := clitest.StartCloud(t, "-m", m, "--log", "off")
	stop()
	assert.NotEqual(t, pin, made)
	for name, mode := range map[string]os.FileMode{"cloud.crt": 0o644, "cloud.key": 0o600} {
		info, err := os.Stat(filepath.Join(config, "pilotfish", name))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), name)
	}
	info, err := os.Stat(filepath.Join(config, "pilotfish"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, os.WriteFile(filepath.Join(config, "pilotfish", "cloud.key"), []byte("damaged"), 0o600))
	code, _, stderr := clitest.Call(t, "cloud", "-m", m, "--listen", "127.0.0.1:0")
	assert.Equal(t, cli.ExitFailed, code, stderr)
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, "")
	}
	code, _, stderr = clitest.Call(t, "cloud", "-m", m, "--listen", "127.0.0.1:0")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "give one with --cert and --key")
	code, _, stderr = clitest.Call(t, "cloud", "-m", m, "--listen", "0.0.0.0:0", "--cert", cert, "--key", key)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "the access token cannot be stored")
	_, pin2, stop := clitest.StartCloud(t, "-m", m, "--log", "off", "--cert", cert, "--key", key)
	stop()
	assert.Equal(t, pin, pin2, "nothing needs to be stored")
}

// TestCloudGreeting: the start message tells how devices connect to this address.
func TestCloudGreeting(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	c := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--log", "off", "--ctx", "64",
		"--slots", "200", "--kv", "f32")
	c.Stop()
	assert.Equal(t, "listening on "+c.Address+`, open to programs on this machine, as it listens on loopback only
memory for 200 tokens of all devices together, that is for 3 devices with a full context of 64 tokens: up to 400 KiB
a question waits for others by steps of at most 128 new tokens
`, c.Said)
	assert.Equal(t, cli.ExitDone, c.Code, "it was stopped without a signal")
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
