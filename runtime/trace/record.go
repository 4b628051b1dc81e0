package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// order is the byte order of numbers; see the package's layout.
var order = binary.LittleEndian

const (
	promptBytes   = 24
	positionBytes = 52
	sumBytes      = 4
)

// flags of a prompt.
const (
	flagCut = 1 << iota
	flagLeftOut
	flagRight
	flagWrong
)

func (p *Prompt) encodeFlags() (f uint32) {
	for flag, set := range map[uint32]bool{
		flagCut: p.Cut, flagLeftOut: p.LeftOut, flagRight: p.Graded && p.Right, flagWrong: p.Graded && !p.Right,
	} {
		if set {
			f |= flag
		}
	}
	return f
}

// encodeRecord returns the record of the prompt with a number, without its checksum. It refuses what [readRecord]
// would.
func (t *Text) encodeRecord(number, width int) ([]byte, error) {
	m := len(t.Positions)
	if len(t.Hidden) != m*width {
		return nil, fmt.Errorf("%d halves of hidden states for %d positions of width %d", len(t.Hidden), m, width)
	}
	b := make([]byte, 0, promptBytes+m*(positionBytes+2*width)+sumBytes)
	for _, v := range []uint32{
		uint32(t.Tokens), uint32(m), t.encodeFlags(), uint32(t.Cloud), uint32(t.Rollouts), uint32(t.RolloutTokens),
	} {
		b = order.AppendUint32(b, v)
	}
	for _, p := range t.Positions {
		p.Prompt = int32(number)
		for _, f := range []*float32{&p.LargeLogProb, &p.ReferenceLarge} {
			if *f != *f {
				*f = float32(math.NaN()) // the same bits for every payload
			}
		}
		b, _ = binary.Append(b, order, &p) // fails for no value of this type
	}
	for _, h := range t.Hidden {
		b = order.AppendUint16(b, h)
	}
	p, err := readRecord(b, number, width)
	if err == nil && p != t.Prompt {
		err = fmt.Errorf("what it says of the whole text is contradictory: %w", ErrValue)
	}
	return b, err
}

// readRecord checks the bytes of a record without its checksum, and returns what it says of the whole text.
func readRecord(b []byte, number, width int) (p Prompt, err error) {
	var v [6]int
	for i := range v {
		if v[i] = int(order.Uint32(b[4*i:])); v[i] < 0 || v[i] > math.MaxInt32 {
			return p, fmt.Errorf("prompt %d: field %d is %d: %w", number, i, uint32(v[i]), ErrValue)
		}
	}
	p = Prompt{
		Tokens: v[0], Cut: v[2]&flagCut != 0, LeftOut: v[2]&flagLeftOut != 0, Graded: v[2]&(flagRight|flagWrong) != 0,
		Right: v[2]&flagRight != 0, Cloud: v[3], Rollouts: v[4], RolloutTokens: v[5],
	}
	m := v[1]
	if int(p.encodeFlags()) != v[2] || p.LeftOut && m > 0 {
		return p, fmt.Errorf("prompt %d: flags %d with %d positions: %w", number, v[2], m, ErrValue)
	}
	hidden, next := b[promptBytes+m*positionBytes:], p.Tokens
	for i := range m {
		at := positionAt(b[promptBytes:], i)
		if int(at.Prompt) != number || int(at.Pos) < next {
			err = fmt.Errorf("it is token %d of prompt %d: %w", at.Pos, at.Prompt, ErrValue)
		} else {
			err = at.validateRanges()
		}
		next = int(at.Pos) + 1
		for j, h := 0, hidden[2*i*width:]; j < width && err == nil; j++ {
			if order.Uint16(h[2*j:])&0x7c00 == 0x7c00 {
				err = fmt.Errorf("hidden[%d] is not finite: %w", j, ErrValue)
			}
		}
		if err != nil {
			return p, fmt.Errorf("prompt %d: position %d: %w", number, i, err)
		}
	}
	return p, nil
}

func positionAt(b []byte, i int) (p Position) {
	if _, err := binary.Decode(b[i*positionBytes:(i+1)*positionBytes], order, &p); err != nil {
		panic(err) // unreachable: there are as many bytes as it has
	}
	return p
}

func (p *Position) validateRanges() error {
	// a hundred nats of entropy are of more tokens than any vocabulary has; rounding may carry the logarithm of a
	// probability a little above 0; a large model's may be unknown
	const above = 1e-3
	for _, c := range []struct {
		name      string
		value     float32
		low, high float64
		unknown   bool
	}{
		{"reference", float32(p.Reference), 0, math.MaxInt32 + 1, false},
		{"small", float32(p.Small), 0, math.MaxInt32 + 1, false},
		{"large", float32(p.Large), 0, math.MaxInt32 + 1, false},
		{"margin", p.Margin, 0, 1, false}, {"entropy", p.Entropy, 0, 100, false},
		{"small_logprob", p.SmallLogProb, -math.MaxFloat32, above, false},
		{"large_logprob", p.LargeLogProb, -math.MaxFloat32, above, true},
		{"reference_small", p.ReferenceSmall, -math.MaxFloat32, above, false},
		{"reference_large", p.ReferenceLarge, -math.MaxFloat32, above, true},
	} {
		v := float64(c.value)
		if !(v >= c.low && v <= c.high) && !(c.unknown && v != v) {
			return fmt.Errorf("%s is %v: %w", c.name, c.value, ErrValue)
		}
	}
	if i := slices.IndexFunc(p.Labels[:], func(v Verdict) bool { return v > Spoil }); i >= 0 {
		return fmt.Errorf("label %d is %d: %w", i, p.Labels[i], ErrValue)
	}
	return nil
}

// contents are the complete records of a file.
type contents struct {
	settings Settings
	b        []byte
	prompts  []Prompt
	at       []int // where the positions of each prompt begin in b
	start    []int // the number of the first position of each prompt, and the number of positions at the end
	end      int   // of the records in b
	sum      uint32
}

// parseContents checks the bytes of a file, all of them. The last record may be unfinished.
func parseContents(b []byte) (*contents, error) {
	line := bytes.IndexByte(b[:min(len(b), maxLine)], '\n') + 1
	if line == 0 {
		return nil, ErrFormat
	}
	s, err := parseSettings(b[:line])
	if err != nil {
		return nil, err
	}
	c := &contents{settings: *s, b: b, start: []int{0}, end: line, sum: crc32.ChecksumIEEE(b[:line])}
	for number := 0; number < s.Prompts; number++ {
		rest := b[c.end:]
		if len(rest) < promptBytes {
			return c, nil
		}
		m := order.Uint32(rest[4:])
		size := promptBytes + int64(m)*int64(positionBytes+2*s.Width)
		if int64(len(rest)) < size+sumBytes {
			return c, nil
		}
		sum := crc32.Update(c.sum, crc32.IEEETable, rest[:size])
		if sum != order.Uint32(rest[size:]) && int64(len(rest)) == size+sumBytes {
			return c, nil // the machine stopped while it was written
		} else if sum != order.Uint32(rest[size:]) {
			return nil, fmt.Errorf("prompt %d: %w", number, ErrChecksum)
		}
		p, err := readRecord(rest[:size], number, s.Width) // fails only for a file that another program wrote
		if err != nil {
			return nil, err
		}
		c.prompts, c.at = append(c.prompts, p), append(c.at, c.end+promptBytes)
		c.start = append(c.start, c.start[number]+int(m))
		c.end, c.sum = c.end+int(size)+sumBytes, sum
	}
	if c.end < len(b) {
		return nil, fmt.Errorf("%d bytes after the last prompt: %w", len(b)-c.end, ErrValue)
	}
	return c, nil
}
