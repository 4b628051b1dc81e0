package netproto

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// Device identifies a device to its gateway: 128 random bits, drawn once and kept. It is a secret between the two,
// since whoever knows it can go on with the sessions of the device. Printing it shows [Device.Name].
//
// The zero Device means none. A gateway then takes each connection for a device of its own: its sessions end with the
// connection.
type Device [16]byte

// Name returns eight hexadecimal digits that stand for the device in logs, the beginning of its SHA-256. They do not
// give the device away; "" for the zero Device.
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

// MarshalText returns the name: a device is written to a file on purpose only, with [Device.Reveal].
func (d Device) MarshalText() ([]byte, error) { return []byte(d.Name()), nil }

// Reveal returns the device itself in hexadecimal, to be stored where only its owner can read it.
func (d Device) Reveal() string { return hex.EncodeToString(d[:]) }

// ParseDevice reads what [Device.Reveal] returns. Its errors do not repeat s, which may be a secret with a mistake in
// it.
func ParseDevice(s string) (d Device, err error) {
	if len(s) != hex.EncodedLen(len(d)) {
		return Device{}, fmt.Errorf("device: %d characters instead of %d: %w", len(s), hex.EncodedLen(len(d)), ErrValue)
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Device{}, fmt.Errorf("device: not hexadecimal: %w", ErrValue)
	}
	return d, nil
}
