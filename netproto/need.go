package netproto

import "encoding/binary"

// Need answers an Ask or a Sync with a base that the gateway does not hold. The client repeats it from Position if its
// path has this hash there, else from 0.
type Need struct {
	Position int
	Hash     Hash // of the path up to Position, as the gateway holds it
}

// Append appends the frame to b.
func (n Need) Append(b []byte) []byte {
	return appendFrame(b, KindNeed, func(b []byte) []byte {
		return binary.LittleEndian.AppendUint64(appendUvarint(b, n.Position), uint64(n.Hash))
	})
}

// ParseNeed takes a Need of n bytes from the front of b.
func ParseNeed(b []byte) (need Need, n int, err error) {
	p, n := openFrame(b, KindNeed)
	need.Position = int(p.readUvarint("position", MaxPosition))
	need.Hash = Hash(p.readUint64("hash"))
	if err := p.closeFrame(); err != nil {
		return Need{}, 0, err
	}
	return need, n, nil
}
