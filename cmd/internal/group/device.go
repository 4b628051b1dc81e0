package group

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// loadDevice returns the name that identifies this device at the gateway. It is drawn once and stored in the user's
// configuration folder. If it cannot be stored, the name is only for this run, and stderr says so.
func loadDevice(a *cli.App) (netproto.Device, error) {
	var drawn netproto.Device
	_, _ = rand.Read(drawn[:]) // always returns nil
	config, err := os.UserConfigDir()
	if err == nil {
		var kept netproto.Device
		if kept, err = loadOrStoreDevice(filepath.Join(config, "pilotfish", "device"), drawn); err == nil {
			return kept, nil
		}
	}
	if errors.Is(err, errDamaged) {
		return netproto.Device{}, err
	}
	const warning = "pilotfish: cannot keep the name of this device, so it is new to the gateway in each run: " +
		"%v\n"
	fmt.Fprintf(a.Stderr, warning, err)
	return drawn, nil
}

// errDamaged means that a file does not contain a device.
var errDamaged = errors.New("delete it, and the next run makes a new one")

// loadOrStoreDevice returns the device in the file. If there is none, it writes the drawn one. If several processes
// start at the same time, one writes the file and all return the same device.
func loadOrStoreDevice(path string, drawn netproto.Device) (netproto.Device, error) {
	d, err := readDeviceFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return d, err
	}
	if err := createFileOnce(path, []byte(drawn.Reveal()+"\n")); err != nil {
		return d, err
	}
	return readDeviceFile(path)
}

func readDeviceFile(path string) (d netproto.Device, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return d, err
	}
	if d, err = netproto.ParseDevice(strings.TrimSpace(string(b))); err == nil && d == (netproto.Device{}) {
		err = errors.New("all zero")
	}
	if err != nil {
		return netproto.Device{}, fmt.Errorf("%s is damaged (%w): %w", path, err, errDamaged)
	}
	return d, nil
}

// createFileOnce creates a file that only its owner can read, with its complete content. It does not change a file that
// exists.
func createFileOnce(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // has no effect after the rename
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(f.Name(), path) // the file system has no links
}
