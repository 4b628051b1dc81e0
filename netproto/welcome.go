package netproto

import (
	"encoding/binary"
	"math"
)

// Welcome is a gateway's consent to a Hello.
type Welcome struct {
	Version    int
	Model      string // name of the large model
	Limits     Limits
	Dictionary uint32 // id of the trained dictionary in use; 0 means none
}

// Limits say what a gateway takes from one client.
type Limits struct {
	Context  int // tokens of a context
	Sessions int // sessions that are kept; a new one above that makes the gateway forget the one used longest ago
	Asks     int // open at a time on a connection; the gateway works on fewer, and the others wait
	Message  int // bytes of a frame's body
}

// Append appends the frame to b.
func (w Welcome) Append(b []byte) []byte {
	return appendFrame(b, KindWelcome, func(b []byte) []byte {
		b = appendString(appendUvarint(b, w.Version), w.Model)
		for _, v := range []int{w.Limits.Context, w.Limits.Sessions, w.Limits.Asks, w.Limits.Message} {
			b = appendUvarint(b, v)
		}
		return binary.LittleEndian.AppendUint32(b, w.Dictionary)
	})
}

// ParseWelcome takes a Welcome of n bytes from the front of b.
func ParseWelcome(b []byte) (w Welcome, n int, err error) {
	p, n := openFrame(b, KindWelcome)
	w.Version = int(p.uvarint("version", 1<<16))
	w.Model = p.string("model")
	for _, v := range []*int{&w.Limits.Context, &w.Limits.Sessions, &w.Limits.Asks, &w.Limits.Message} {
		*v = int(p.uvarint("limit", math.MaxInt32))
	}
	w.Dictionary = p.u32("dictionary")
	if err := p.close(); err != nil {
		return Welcome{}, 0, err
	}
	return w, n, nil
}
