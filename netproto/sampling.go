package netproto

import (
	"encoding/binary"
	"math"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// The parts of a sampling that are not 0, as bits. Its numbers are sent exactly, so that edge and cloud draw the same
// token.
const (
	hasTemperature = 1 << iota
	hasTopK
	hasTopP
	hasSeed
	flagsEnd
)

func samplingFlags(s terms.Sampling) byte {
	return flagBit(s.Temperature != 0, hasTemperature) | flagBit(s.TopK != 0, hasTopK) |
		flagBit(s.TopP != 0, hasTopP) | flagBit(s.Seed != 0, hasSeed)
}

func flagBit(set bool, b byte) byte {
	if set {
		return b
	}
	return 0
}

func appendSampling(b []byte, s terms.Sampling) []byte {
	f := samplingFlags(s)
	b = append(b, f)
	if f&hasTemperature != 0 {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.Temperature))
	}
	if f&hasTopK != 0 {
		b = appendUvarint(b, s.TopK)
	}
	if f&hasTopP != 0 {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.TopP))
	}
	if f&hasSeed != 0 {
		b = binary.LittleEndian.AppendUint64(b, s.Seed)
	}
	return b
}

func (p *parser) readSampling() (s terms.Sampling) {
	f := p.readUint8("sampling")
	if f&hasTemperature != 0 {
		s.Temperature = p.readPositiveFloat64("temperature")
	}
	if f&hasTopK != 0 {
		s.TopK = int(p.readUvarint("top-k", MaxVocab))
	}
	if f&hasTopP != 0 {
		s.TopP = p.readPositiveFloat64("top-p")
	}
	if f&hasSeed != 0 {
		s.Seed = p.readUint64("seed")
	}
	if f >= flagsEnd || f != samplingFlags(s) || s.TopP > 1 {
		p.failField("sampling", ErrValue)
	}
	return s
}
