package netproto

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// Device identifies a device to its gateway: 128 random bits, drawn once and stored. It is a secret, because its owner
// can continue the sessions of the device. Printing it shows [Device.Name].
//
// The zero Device means none. A gateway then treats each connection as a separate device: its sessions end with the
// connection.
type Device [16]byte

// Name returns eight hexadecimal digits that identify the device in logs: the first digits of its SHA-256, which do not
// reveal the device. It is "" for the zero Device.
func (d Device) Name() string {
	if d == (Device{}) {
		return ""
	}
	sum := sha256.Sum256(d[:])
	return hex.EncodeToString(sum[:4])
}

// String returns the name.
func (d Device) String() string { return d.Name() }

// GoString returns the name.
func (d Device) GoString() string { return d.Name() }

// LogValue returns the name.
func (d Device) LogValue() slog.Value { return slog.StringValue(d.Name()) }

// MarshalText returns the name, so that a device is not written to a file by accident. See [Device.Reveal].
func (d Device) MarshalText() ([]byte, error) { return []byte(d.Name()), nil }

// Reveal returns the device in hexadecimal. Store it where only its owner can read it.
func (d Device) Reveal() string { return hex.EncodeToString(d[:]) }

// ParseDevice parses what [Device.Reveal] returns. Its errors do not contain s, which may be a mistyped secret.
func ParseDevice(s string) (d Device, err error) {
	if len(s) != hex.EncodedLen(len(d)) {
		return Device{}, fmt.Errorf("device: %d characters instead of %d: %w", len(s), hex.EncodedLen(len(d)), ErrValue)
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Device{}, fmt.Errorf("device: not hexadecimal: %w", ErrValue)
	}
	return d, nil
}
