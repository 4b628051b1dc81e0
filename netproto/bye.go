package netproto

import "encoding/binary"

// Bye ends a session: the gateway forgets it. If a client disappears without sending it, the session only uses memory
// of the gateway for a while.
type Bye struct {
	Session uint32
}

// Append appends the frame to b.
func (y Bye) Append(b []byte) []byte {
	return appendFrame(b, KindBye, func(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, y.Session) })
}

// ParseBye takes a Bye of n bytes from the front of b.
func ParseBye(b []byte) (y Bye, n int, err error) {
	p, n := openFrame(b, KindBye)
	y.Session = p.readUint32("session")
	if err := p.closeFrame(); err != nil {
		return Bye{}, 0, err
	}
	return y, n, nil
}
