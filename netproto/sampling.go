package netproto

import (
	"encoding/binary"
	"math"
)

// Sampling says how the large model chooses. The zero value is greedy. The numbers are those of the edge to the last
// bit, so that both draw alike.
type Sampling struct {
	Temperature float64 // logits are divided by it; 0 means greedy
	TopK        int     // only the k most probable tokens; 0 means all
	TopP        float64 // only the fewest most probable tokens that reach this share; 0 means all
	Seed        uint64  // of the noise, which is a function of seed and position
}

const (
	hasTemperature = 1 << iota
	hasTopK
	hasTopP
	hasSeed
	flagsEnd
)

func (s Sampling) flags() byte {
	return bit(s.Temperature != 0, hasTemperature) | bit(s.TopK != 0, hasTopK) |
		bit(s.TopP != 0, hasTopP) | bit(s.Seed != 0, hasSeed)
}

func bit(set bool, b byte) byte {
	if set {
		return b
	}
	return 0
}

func (s Sampling) append(b []byte) []byte {
	f := s.flags()
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

func (p *parser) sampling() (s Sampling) {
	f := p.u8("sampling")
	if f&hasTemperature != 0 {
		s.Temperature = p.f64("temperature")
	}
	if f&hasTopK != 0 {
		s.TopK = int(p.uvarint("top-k", MaxVocab))
	}
	if f&hasTopP != 0 {
		s.TopP = p.f64("top-p")
	}
	if f&hasSeed != 0 {
		s.Seed = p.u64("seed")
	}
	if f >= flagsEnd || f != s.flags() || s.TopP > 1 {
		p.fail("sampling", ErrValue)
	}
	return s
}
