package trace

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"sort"
)

// shard is the bytes of one file, checked.
type shard struct {
	layout
	b     []byte
	start []int // the first position of each prompt, and the number of positions at the end
}

// parse checks the bytes of a shard, all of them.
func parse(b []byte) (*shard, error) {
	l, err := readHeader(b)
	if err != nil {
		return nil, err
	}
	s := &shard{layout: l, b: b}
	if sum := sha256.Sum256(b[:l.checksum.from]); !bytes.Equal(sum[:], s.section(l.checksum)) {
		return nil, fail("checksum", ErrChecksum)
	}
	// the checks below fail only for a file that another program wrote
	if err := s.checkPrompts(); err != nil {
		return nil, err
	}
	return s, s.checkValues()
}

func (s *shard) section(at span) []byte { return s.b[at.from:at.to] }

// word returns a number of a section.
func (s *shard) word(at span, i int) uint32 { return order.Uint32(s.b[at.from+4*int64(i):]) }

// float returns a number of a section.
func (s *shard) float(at span, i int) float32 { return math.Float32frombits(s.word(at, i)) }

// checkPrompts adds up the positions of the prompts.
func (s *shard) checkPrompts() error {
	s.start = make([]int, 1, s.prompts+1)
	for p := range s.prompts {
		for field := range promptWords {
			if v := s.word(s.prompt, p*promptWords+field); v > math.MaxInt32 {
				return fail(fmt.Sprintf("prompt[%d,%d]", p, field), fmt.Errorf("%d: %w", v, ErrValue))
			}
		}
		s.start = append(s.start, s.start[p]+int(s.word(s.prompt, p*promptWords+1)))
		if s.start[p+1] > s.positions {
			break
		}
	}
	if sum := s.start[len(s.start)-1]; sum != s.positions {
		return fail("prompt", fmt.Errorf("%d positions or more of %d: %w", sum, s.positions, ErrValue))
	}
	return nil
}

// checkValues refuses numbers that no model can give.
func (s *shard) checkValues() error {
	for i := range s.positions {
		p := s.at(i)
		if err := p.check(); err != nil {
			return fail(fmt.Sprintf("position %d", i), err)
		}
	}
	for i, h := 0, s.section(s.hidden); i < len(h); i += 2 {
		if order.Uint16(h[i:])&0x7c00 == 0x7c00 {
			return fail(fmt.Sprintf("hidden[%d,%d]", i/2/s.width, i/2%s.width), fmt.Errorf("not finite: %w", ErrValue))
		}
	}
	return nil
}

// check refuses values that no model can give.
func (p *Position) check() error {
	for i, v := range []int32{p.Reference, p.Small, p.Large} {
		if v < 0 {
			return fmt.Errorf("%s is %d: %w", columnNames()[i], v, ErrValue)
		}
	}
	for i, v := range p.floats() {
		if f := float64(v); !possible(i, f) {
			return fmt.Errorf("%s is %v: %w", columnNames()[3+i], v, ErrValue)
		}
	}
	for rule, v := range p.Labels {
		if v > Spoil {
			return fmt.Errorf("label %d is %d: %w", rule, v, ErrValue)
		}
	}
	return nil
}

// possible reports whether a model can give f as the value of [Position.floats] with that number.
func possible(number int, f float64) bool {
	switch number {
	case 0: // margin
		return f >= 0 && f <= 1
	case 1: // entropy: a hundred nats are of more tokens than any vocabulary has
		return f >= 0 && f <= 100
	case 3, 5: // of a large model, which may not be reported
		return f != f || possible(2, f)
	}
	return f <= 1e-3 && !math.IsInf(f, -1) // a logarithm of a probability, and how far rounding may carry it
}

// at returns a position, without the number of its prompt and its place in the text.
func (s *shard) at(i int) (p Position) {
	p = Position{
		Reference: int32(s.word(s.reference, i)), Small: int32(s.word(s.small, i)), Large: int32(s.word(s.large, i)),
		Margin: s.float(s.margin, i), Entropy: s.float(s.entropy, i),
		SmallLogProb: s.float(s.smallLog, i), LargeLogProb: s.float(s.largeLog, i),
		ReferenceSmall: s.float(s.referenceSmallLog, i), ReferenceLarge: s.float(s.referenceBigLog, i),
	}
	for rule := range s.rules {
		p.Labels[rule] = Verdict(s.b[s.labels[rule].from+int64(i)])
	}
	return p
}

// promptOf returns the prompt of a position, numbered in the shard.
func (s *shard) promptOf(i int) int {
	return sort.Search(s.prompts, func(p int) bool { return s.start[p+1] > i })
}

// promptAt returns the description of a prompt, numbered in the shard.
func (s *shard) promptAt(p int) Prompt {
	field := func(i int) int { return int(s.word(s.prompt, p*promptWords+i)) }
	flags := field(2)
	return Prompt{
		Tokens: field(0), Cut: flags&flagCut != 0, LeftOut: flags&flagLeftOut != 0,
		Graded: flags&(flagRight|flagWrong) != 0, Right: flags&flagRight != 0,
		Cloud: field(3), Rollouts: field(4), RolloutTokens: field(5),
	}
}

// halves returns the hidden state of a position.
func (s *shard) halves(i int) []byte {
	from := s.hidden.from + 2*int64(i)*int64(s.width)
	return s.b[from : from+2*int64(s.width)]
}
