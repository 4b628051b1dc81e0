package group

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// configFolder sets a new configuration folder for the test, and returns the path of the device in it.
func configFolder(t *testing.T) string {
	t.Helper()
	clitest.OwnFolders(t)
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	return filepath.Join(config, "pilotfish", "device")
}

// TestDevice: the device is drawn once and stored readable only by the user. Concurrent processes get the same one.
func TestDevice(t *testing.T) {
	path := configFolder(t)
	var stderr bytes.Buffer
	devices, all := make([]netproto.Device, 32), sync.WaitGroup{}
	for i := range devices {
		all.Go(func() {
			var err error
			devices[i], err = loadDevice(&cli.App{Stderr: &stderr})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Empty(t, stderr.String())
	for _, d := range devices {
		assert.Equal(t, devices[0].Reveal(), d.Reveal())
	}
	assert.NotZero(t, devices[0])
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm())
	folder, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, folder, 1, "nothing else is left")
	later, err := loadDevice(&cli.App{})
	require.NoError(t, err)
	assert.Equal(t, devices[0].Reveal(), later.Reveal())

	var o pilotfish.DialOptions
	require.NoError(t, new(GatewayFlags).Remember(&cli.App{}, &o))
	assert.Equal(t, devices[0].Reveal(), o.Device.Reveal())
	assert.NotEmpty(t, o.TicketFolder)

	configFolder(t)
	other, err := loadDevice(&cli.App{})
	require.NoError(t, err)
	assert.NotEqual(t, devices[0].Reveal(), other.Reveal())
}

// TestDamagedDevice: an invalid device file is neither replaced silently nor shown.
func TestDamagedDevice(t *testing.T) {
	path := configFolder(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	good := strings.Repeat("ab", 16)
	for _, content := range []string{"", good[1:], good + "0", strings.Repeat("xy", 16), strings.Repeat("0", 32)} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := loadDevice(&cli.App{})
		require.ErrorContains(t, err, path)
		assert.ErrorContains(t, err, "delete it")
		assert.NotContains(t, err.Error(), good[2:])
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(after))
	}
	require.NoError(t, os.WriteFile(path, []byte(good+"\n"), 0o600))
	d, err := loadDevice(&cli.App{})
	require.NoError(t, err)
	assert.Equal(t, good, d.Reveal())
}

// TestDeviceNowhere: if nothing can be stored, a device is drawn for the run, with one message.
func TestDeviceNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, config := range []string{"", file, filepath.Join(file, "below")} {
		for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
			t.Setenv(name, config)
		}
		var stderr bytes.Buffer
		d, err := loadDevice(&cli.App{Stderr: &stderr})
		require.NoError(t, err)
		assert.NotZero(t, d)
		assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
		assert.NotContains(t, stderr.String(), d.Reveal())
	}
}
