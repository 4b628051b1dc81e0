package trace

import (
	"fmt"
	"io"
	"math"
)

const (
	magic       = "PFTRACE\x00"
	headerBytes = 64
	align       = 64
	sumBytes    = 32
	promptWords = 8
	hiddenF16   = 1
)

// flags of a prompt.
const (
	flagCut = 1 << iota
	flagLeftOut
	flagRight
	flagWrong
)

// span is the place of a section in its file.
type span struct{ from, to int64 }

// layout holds the places of a shard's sections.
type layout struct {
	shard, first, prompts, positions, width, rules int

	manifest, prompt                                       span
	reference, small, large                                span
	margin, entropy                                        span
	smallLog, largeLog, referenceSmallLog, referenceBigLog span
	labels                                                 [maxRules]span
	hidden, checksum                                       span
}

// place computes the places of the sections. All counts have been checked: no offset exceeds 2⁴⁹.
func (l *layout) place() {
	at := int64(headerBytes)
	next := func(bytes int64) span {
		s := span{at, at + bytes}
		at = (s.to + align - 1) / align * align
		return s
	}
	m := int64(l.positions)
	l.manifest = next(sumBytes)
	l.prompt = next(4 * promptWords * int64(l.prompts))
	for _, s := range l.columns() {
		*s = next(4 * m)
	}
	for i := range l.rules {
		l.labels[i] = next(m)
	}
	l.hidden = next(2 * m * int64(l.width))
	l.checksum = next(sumBytes)
}

// columns returns the sections with one number of four bytes per position, in order.
func (l *layout) columns() []*span {
	return []*span{
		&l.reference, &l.small, &l.large, &l.margin, &l.entropy,
		&l.smallLog, &l.largeLog, &l.referenceSmallLog, &l.referenceBigLog,
	}
}

// columnNames returns their names in errors.
func columnNames() []string {
	return []string{
		"reference", "small", "large", "margin", "entropy",
		"small_logprob", "large_logprob", "reference_small", "reference_large",
	}
}

// check refuses counts that no shard can have.
func (l *layout) check() error {
	for _, f := range []struct {
		name              string
		value, low, limit int
	}{
		{"shard", l.shard, 0, math.MaxInt32}, {"first", l.first, 0, math.MaxInt32},
		{"prompts", l.prompts, 1, maxPrompts}, {"positions", l.positions, 0, maxPositions},
		{"width", l.width, 1, maxWidth}, {"rules", l.rules, 0, maxRules},
	} {
		if f.value < f.low || f.value > f.limit {
			return fail(f.name, fmt.Errorf("%d, not within %d to %d: %w", f.value, f.low, f.limit, ErrValue))
		}
	}
	return nil
}

// belongs refuses a shard that does not have these settings and that number.
func (l *layout) belongs(s *Settings, shard int) error {
	first, end := s.ShardRange(shard)
	for _, f := range []struct {
		name      string
		got, want int
	}{
		{"shard", l.shard, shard}, {"first", l.first, first}, {"prompts", l.prompts, end - first},
		{"width", l.width, s.Width}, {"rules", l.rules, len(s.Labels)},
	} {
		if f.got != f.want {
			return fail(f.name, fmt.Errorf("%d instead of %d: %w", f.got, f.want, ErrManifest))
		}
	}
	return nil
}

// header returns the bytes of the header.
func (l *layout) header() []byte {
	b := []byte(magic)
	for _, v := range []int{version, l.shard, l.first, l.prompts, l.positions, l.width, l.rules, hiddenF16} {
		b = order.AppendUint32(b, uint32(v))
	}
	return append(b, make([]byte, headerBytes-len(b))...)
}

// readHeader parses the header and places the sections, which lie within the size of b.
func readHeader(b []byte) (l layout, err error) {
	if len(b) < headerBytes {
		return l, fail("header", io.ErrUnexpectedEOF)
	}
	if string(b[:len(magic)]) != magic {
		return l, fail("magic", ErrMagic)
	}
	word := func(i int) int { return int(min(order.Uint32(b[len(magic)+4*i:]), math.MaxInt32)) }
	if v := word(0); v != version {
		return l, fail("version", fmt.Errorf("%d: %w", v, ErrVersion))
	}
	l = layout{
		shard: word(1), first: word(2), prompts: word(3), positions: word(4), width: word(5), rules: word(6),
	}
	if kind := word(7); kind != hiddenF16 {
		return l, fail("type", fmt.Errorf("%d, not %d: %w", kind, hiddenF16, ErrValue))
	}
	if err := l.check(); err != nil {
		return l, err
	}
	l.place()
	switch size := int64(len(b)); {
	case size < l.checksum.to:
		return l, fail("size", fmt.Errorf("%d bytes of %d: %w", size, l.checksum.to, io.ErrUnexpectedEOF))
	case size > l.checksum.to:
		return l, fail("size", fmt.Errorf("%d bytes instead of %d: %w", size, l.checksum.to, ErrValue))
	}
	return l, nil
}

// fail returns an error without the path, which the caller adds.
func fail(field string, err error) error { return &FormatError{Field: field, Err: err} }
