package netproto

import (
	"encoding/binary"
	"log/slog"
)

// Hello is the first message of a client.
type Hello struct {
	Version    int // [Version]; a gateway refuses others
	Identity   Identity
	Device     Device // the device; zero means none
	Dictionary uint32 // id of the trained dictionary that the client has; 0 means none
	Secret     Secret // the access token; empty if the gateway needs none
}

// Secret is an access token. Printing it shows only whether it is set.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Append appends the frame to b.
func (h Hello) Append(b []byte) []byte {
	return appendFrame(b, KindHello, func(b []byte) []byte {
		b = h.Identity.appendTo(appendUvarint(b, h.Version))
		b = append(b, h.Device[:]...)
		b = binary.LittleEndian.AppendUint32(b, h.Dictionary)
		return appendString(b, string(h.Secret))
	})
}

// ParseHello takes a Hello of n bytes from the front of b. If its version is not [Version], the error is
// [WrongVersion], whatever follows.
func ParseHello(b []byte) (h Hello, n int, err error) {
	p, n := openFrame(b, KindHello)
	if h.Version = int(p.readUvarint("version", 1<<16)); h.Version != Version {
		p.failField("version", WrongVersion)
	}
	h.Identity = p.readIdentity()
	copy(h.Device[:], p.readBytes("device", len(h.Device)))
	h.Dictionary = p.readUint32("dictionary")
	h.Secret = Secret(p.readString("secret"))
	if err := p.closeFrame(); err != nil {
		return Hello{}, 0, err
	}
	return h, n, nil
}
