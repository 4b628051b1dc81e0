package netproto

// Ack answers a [Sync]: later messages may use its path as a base.
type Ack struct {
	Position int // length of the path
}

// Append appends the frame to b.
func (a Ack) Append(b []byte) []byte {
	return appendFrame(b, KindAck, func(b []byte) []byte { return appendUvarint(b, a.Position) })
}

// ParseAck takes an Ack of n bytes from the front of b.
func ParseAck(b []byte) (a Ack, n int, err error) {
	p, n := openFrame(b, KindAck)
	a.Position = int(p.readUvarint("position", MaxPosition))
	if err := p.closeFrame(); err != nil {
		return Ack{}, 0, err
	}
	return a, n, nil
}
