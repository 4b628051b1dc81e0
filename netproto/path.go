package netproto

import "encoding/binary"

// Path is a context as a difference: the tokens after a base that both sides have.
type Path struct {
	Base  int   // tokens of the base
	Hash  Hash  // of the base; RootHash if it is empty
	Delta Delta // tokens after the base; len(context) is Base + Delta.Count
}

// Position returns the length of the whole path, which is the position of the requested token.
func (p Path) Position() int { return p.Base + p.Delta.Count }

// Delta is a run of token ids in one of the codings of [Codec].
type Delta struct {
	Count  int // ids
	Coding Coding
	Bytes  []byte
}

func (p Path) appendTo(b []byte) []byte {
	b = appendUvarint(b, p.Base)
	if p.Base > 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Hash))
	}
	b = append(appendUvarint(b, p.Delta.Count), byte(p.Delta.Coding))
	return append(appendUvarint(b, len(p.Delta.Bytes)), p.Delta.Bytes...)
}

func (p *parser) readPath() (path Path) {
	path.Base = int(p.readUvarint("base", MaxPosition))
	path.Hash = RootHash
	if path.Base > 0 {
		path.Hash = Hash(p.readUint64("base hash"))
	}
	path.Delta.Count = int(p.readUvarint("tokens", uint64(MaxPosition-path.Base)))
	path.Delta.Coding = Coding(p.readUint8("coding"))
	if path.Delta.Coding >= codings {
		p.failField("coding", ErrValue)
	}
	path.Delta.Bytes = p.readBytes("delta", int(p.readUvarint("delta length", MaxMessage)))
	return path
}
