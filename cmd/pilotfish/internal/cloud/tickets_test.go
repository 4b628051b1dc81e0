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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestReadTicketKeys: keys are read in hex; errors name the line and do not repeat its text.
func TestReadTicketKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	key := func(first byte) engine.GatewayTicketKey { return engine.GatewayTicketKey{first, 0xfb, 0xff} }
	one, two := key(1), key(2)
	read := func(text string) ([]engine.GatewayTicketKey, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return readTicketKeys(file)
	}
	keys, err := read(fmt.Sprintf("# newest first\n\n %X \r\n%x\n", two, one))
	require.NoError(t, err)
	assert.Equal(t, []engine.GatewayTicketKey{two, one}, keys)
	eight := strings.Repeat(fmt.Sprintf("%x\n", one), 8)
	_, err = read(eight)
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":                               "it has no key",
		"#\n":                            "it has no key",
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

// TestKeptTicketKeys: generated keys are made once, renewed after a day, and kept as long as tickets are valid.
func TestKeptTicketKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "cloud.tickets")
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	keep := func(after time.Duration) []engine.GatewayTicketKey {
		now = now.Add(after)
		keys, err := rotateTicketKeys(path, now)
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
	assert.Equal(t, second, keep(time.Hour), "the day starts again")
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

	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "full"), 0o700))
	require.ErrorContains(t, writeTicketKeys(folder, week, now), "write "+folder+": ")
	inside, err = os.ReadDir(filepath.Dir(folder))
	require.NoError(t, err)
	assert.Len(t, inside, 1, "no key is left in another file")

	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	_, err = rotateTicketKeys(path, now)
	require.ErrorContains(t, err, "line 1: write 32")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	keys, err := rotateTicketKeys(filepath.Join(file, "cloud.tickets"), now)
	var unkept *notStoredError
	require.ErrorAs(t, err, &unkept)
	assert.True(t, len(keys) <= 1)
}

// answering is a large model that answers at once.
type answering struct{ dead }

func (answering) Ask(context.Context, terms.Job) (terms.Reply, error) {
	return terms.Reply{Token: 1}, nil
}

// servedWith serves a gateway with these ticket keys. visit connects to it with the ticket of the last visit, if any,
// and reports whether the gateway accepted that.
func servedWith(t *testing.T, keys []engine.GatewayTicketKey) (g *gateway.Gateway, visit func() bool) {
	t.Helper()
	g, err := gateway.New(gateway.Options{TicketKeys: keys}, answering{})
	require.NoError(t, err)
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		socket.Close()
	})
	folder := t.TempDir()
	return g, func() bool {
		c, err := client.Dial(t.Context(), socket.LocalAddr().String(), client.Options{
			Identity: netproto.Identity{Vocab: 100}, Pin: g.Fingerprint(), TicketFolder: folder})
		require.NoError(t, err)
		for names := []string(nil); len(names) == 0; time.Sleep(time.Millisecond) {
			names, err = filepath.Glob(filepath.Join(folder, "*.ticket"))
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		return c.Stats().Early == 1
	}
}

// TestTicketsAreRenewed: a gateway with generated ticket keys makes a new one every day, and drops the oldest.
func TestTicketsAreRenewed(t *testing.T) {
	clitest.OwnFolders(t)
	f := new(cloudCommandFlags)
	begin := time.Now()
	keys, err := f.loadTicketKeys(begin)
	require.NoError(t, err)
	g, visit := servedWith(t, keys)
	var log clitest.LockedBuffer
	r := reloader{f: f, g: g, log: slog.New(slog.NewTextHandler(&log, nil))}
	renew := func(days int) { r.renewTicketKeys(begin.Add(time.Duration(days) * 25 * time.Hour)) }
	assert.False(t, visit())
	for day := range 8 {
		renew(day) // 0 is too early
	}
	assert.True(t, visit(), "the first key is now the eighth")
	for day := 8; day < 17; day++ {
		renew(day)
	}
	assert.False(t, visit(), "the key of its ticket is gone")
	assert.Empty(t, log.String())

	config, err := os.UserConfigDir()
	require.NoError(t, err)
	path := filepath.Join(config, "pilotfish", "cloud.tickets")
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	renew(30)
	assert.Contains(t, log.String(), "level=ERROR msg=\"no new ticket key\"")
	f.operate.tickets = filepath.Join(config, "named") // a file given by the operator is not changed
	renew(40)
	assert.Equal(t, 1, strings.Count(log.String(), "level="))
	assert.NoFileExists(t, f.operate.tickets)
	f.operate.tickets = ""
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	none, err := f.loadTicketKeys(begin)
	require.NoError(t, err)
	assert.Empty(t, none)
	renew(50)
	assert.Equal(t, 1, strings.Count(log.String(), "level="), "without a folder there are no keys to renew")
}

// TestTicketsEveryHour: the age of the key is checked every hour.
func TestTicketsEveryHour(t *testing.T) {
	clitest.OwnFolders(t)
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	bubble.Test(t, func(t *testing.T) {
		f := new(cloudCommandFlags)
		keys, err := f.loadTicketKeys(time.Now())
		require.NoError(t, err)
		g, err := gateway.New(gateway.Options{TicketKeys: keys}, answering{})
		require.NoError(t, err)
		r := reloader{f: f, g: g, log: slog.New(slog.DiscardHandler)}
		stop := r.watchSettings(nil)
		time.Sleep(23*time.Hour + time.Minute)
		synctest.Wait()
		count := func() int {
			kept, err := readTicketKeys(filepath.Join(config, "pilotfish", "cloud.tickets"))
			require.NoError(t, err)
			return len(kept)
		}
		assert.Equal(t, 1, count())
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 2, count())
		stop()
		time.Sleep(48 * time.Hour)
		assert.Equal(t, 2, count(), "it has ended")
	})
}
