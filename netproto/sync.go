package netproto

import "encoding/binary"

// Sync sends settled tokens early. The next ask is then short, and the large model has prefilled these tokens.
type Sync struct {
	Session uint32
	Path    Path
}

// Append appends the frame to b.
func (s Sync) Append(b []byte) []byte {
	return appendFrame(b, KindSync, func(b []byte) []byte {
		return s.Path.appendTo(binary.LittleEndian.AppendUint32(b, s.Session))
	})
}

// ParseSync takes a Sync of n bytes from the front of b. Its delta stays part of b.
func ParseSync(b []byte) (s Sync, n int, err error) {
	p, n := openFrame(b, KindSync)
	s.Session = p.readUint32("session")
	s.Path = p.readPath()
	if err := p.closeFrame(); err != nil {
		return Sync{}, 0, err
	}
	return s, n, nil
}
