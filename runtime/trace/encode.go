package trace

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// order is the byte order of numbers; see the package's layout.
var order = binary.LittleEndian

// encode writes the shard with the number shard. texts are all its texts.
func encode(w io.Writer, s *Settings, manifest [32]byte, shard int, texts []Text) error {
	first, end := s.ShardRange(shard)
	if len(texts) != end-first {
		return fmt.Errorf("shard %d has %d prompts, not %d", shard, end-first, len(texts))
	}
	l := layout{shard: shard, first: first, prompts: len(texts), width: s.Width, rules: len(s.Labels)}
	for i := range texts {
		if err := texts[i].check(s.Width); err != nil {
			return fmt.Errorf("prompt %d: %w", first+i, err)
		}
		l.positions += len(texts[i].Positions)
	}
	if err := l.check(); err != nil {
		return err
	}
	l.place()
	sum := sha256.New()
	to := bufio.NewWriterSize(w, 1<<20)
	e := &encoder{w: io.MultiWriter(to, sum)}
	e.section(span{0, headerBytes}, l.header())
	e.section(l.manifest, manifest[:])
	e.section(l.prompt, promptTable(texts))
	e.columns(&l, texts)
	e.hidden(&l, texts)
	e.section(l.checksum, nil)
	e.write(sum.Sum(nil))
	return to.Flush()
}

// check refuses an inconsistent text.
func (t *Text) check(width int) error {
	switch n := len(t.Positions); {
	case len(t.Hidden) != n*width:
		return fmt.Errorf("%d halves of hidden states for %d positions of width %d", len(t.Hidden), n, width)
	case t.LeftOut && n > 0:
		return fmt.Errorf("%d positions of a prompt that was left out", n)
	case t.Right && !t.Graded:
		return fmt.Errorf("an answer that is right without having been graded")
	}
	for _, v := range []int{t.Tokens, t.Cloud, t.Rollouts, t.RolloutTokens} {
		if v < 0 || v > math.MaxInt32 {
			return fmt.Errorf("the count %d: %w", v, ErrValue)
		}
	}
	for i := range t.Positions {
		if err := t.Positions[i].check(); err != nil {
			return fmt.Errorf("position %d: %w", i, err)
		}
	}
	return nil
}

// encoder writes sections. The buffer that it writes to keeps the first error.
type encoder struct {
	w  io.Writer
	at int64
	b  []byte
}

func (e *encoder) write(b []byte) {
	e.w.Write(b)
	e.at += int64(len(b))
}

// section writes b at the beginning of s.
func (e *encoder) section(s span, b []byte) {
	e.write(make([]byte, s.from-e.at))
	e.write(b)
}

// promptTable returns the section about whole texts.
func promptTable(texts []Text) (b []byte) {
	for i := range texts {
		t := &texts[i]
		for _, v := range [promptWords]int{
			t.Tokens, len(t.Positions), t.flags(), t.Cloud, t.Rollouts, t.RolloutTokens,
		} {
			b = order.AppendUint32(b, uint32(v))
		}
	}
	return b
}

func (p *Prompt) flags() (f int) {
	for _, v := range []struct {
		set  bool
		flag int
	}{{p.Cut, flagCut}, {p.LeftOut, flagLeftOut}, {p.Graded && p.Right, flagRight}, {p.Graded && !p.Right, flagWrong}} {
		if v.set {
			f |= v.flag
		}
	}
	return f
}

// columns writes the sections of one number per position.
func (e *encoder) columns(l *layout, texts []Text) {
	for c, s := range l.columns() {
		e.column(*s, texts, func(b []byte, p *Position) []byte { return order.AppendUint32(b, p.word(c)) })
	}
	for rule := range l.rules {
		e.column(l.labels[rule], texts, func(b []byte, p *Position) []byte { return append(b, byte(p.Labels[rule])) })
	}
}

// word returns the value in the column with that number.
func (p *Position) word(column int) uint32 {
	switch column {
	case 0, 1, 2:
		return uint32([]int32{p.Reference, p.Small, p.Large}[column])
	}
	f := p.floats()[column-3]
	if f != f {
		f = float32(math.NaN()) // the same bits for every payload
	}
	return math.Float32bits(f)
}

// floats returns the values of the columns after the first three.
func (p *Position) floats() [6]float32 {
	return [...]float32{p.Margin, p.Entropy, p.SmallLogProb, p.LargeLogProb, p.ReferenceSmall, p.ReferenceLarge}
}

func (e *encoder) column(s span, texts []Text, add func(b []byte, p *Position) []byte) {
	e.b = e.b[:0]
	for i := range texts {
		for j := range texts[i].Positions {
			e.b = add(e.b, &texts[i].Positions[j])
		}
	}
	e.section(s, e.b)
}

// hidden writes the hidden states, text by text.
func (e *encoder) hidden(l *layout, texts []Text) {
	e.section(l.hidden, nil)
	for i := range texts {
		e.b = e.b[:0]
		for _, h := range texts[i].Hidden {
			e.b = order.AppendUint16(e.b, h)
		}
		e.write(e.b)
	}
}
