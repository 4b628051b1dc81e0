package cloud

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// maxTicketKeys limits the number of stored keys: tickets are valid for a week, and a key is created every day.
const maxTicketKeys = 8

// loadTicketKeys returns the keys of 0-RTT tickets: from the given file, or else the gateway's own. If there is no
// folder to store these in, there are no keys, and tickets are valid as long as the process.
func (f *cloudCommandFlags) loadTicketKeys(now time.Time) ([]engine.GatewayTicketKey, error) {
	if f.operate.tickets != "" {
		return readTicketKeys(f.operate.tickets)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, nil
	}
	path := filepath.Join(dir, "pilotfish", "cloud.tickets")
	if !f.access.dry {
		return rotateTicketKeys(path, now)
	}
	keys, err := readTicketKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return keys, err
}

// readTicketKeys reads a file with one key per line, in hex. Errors do not contain what was read.
func readTicketKeys(path string) (keys []engine.GatewayTicketKey, err error) {
	err = cli.SecretLines("--ticket-key-file", path, "key of 32 bytes in hex", func(_ int, line string) error {
		key, err := hex.DecodeString(line)
		if zero := (engine.GatewayTicketKey{}); err != nil || len(key) != len(zero) || bytes.Equal(key, zero[:]) {
			return errors.New("write 32 random bytes in hex, as `openssl rand -hex 32` prints them")
		}
		if len(keys) == maxTicketKeys {
			return fmt.Errorf("more than %d keys: drop the oldest", maxTicketKeys)
		}
		keys = append(keys, engine.GatewayTicketKey(key))
		return nil
	})
	return keys, err
}

// rotateTicketKeys returns the gateway's own keys in a file. It creates the first key, and a new one if the newest is a
// day old. It drops keys that are older than any valid ticket.
func rotateTicketKeys(path string, now time.Time) ([]engine.GatewayTicketKey, error) {
	const day = 24 * time.Hour
	info, err := os.Stat(path)
	var keys []engine.GatewayTicketKey
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, &notStoredError{err}
	default:
		if keys, err = readTicketKeys(path); err != nil || now.Sub(info.ModTime()) < day {
			return keys, err
		}
	}
	var fresh engine.GatewayTicketKey
	_, _ = rand.Read(fresh[:]) // always returns nil
	keys = append([]engine.GatewayTicketKey{fresh}, keys[:min(len(keys), maxTicketKeys-1)]...)
	if err := writeTicketKeys(path, keys, now); err != nil {
		return keys, &notStoredError{err}
	}
	return keys, nil
}

// notStoredError is the reason why new keys could not be stored: tickets are then only valid as long as the process.
type notStoredError struct{ err error }

func (e *notStoredError) Error() string { return "ticket keys are not kept: " + e.err.Error() }

func (e *notStoredError) Unwrap() error { return e.err }

func writeTicketKeys(path string, keys []engine.GatewayTicketKey, now time.Time) error {
	var text bytes.Buffer
	text.WriteString("# keys of 0-RTT tickets, the newest first; pilotfish cloud adds one a day\n")
	for _, k := range keys {
		fmt.Fprintf(&text, "%x\n", k)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err := cli.ReplaceFile(path, text.Bytes(), 0o600)
	if err == nil {
		err = os.Chtimes(path, now, now)
	}
	return err
}
