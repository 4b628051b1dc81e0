package netproto

import (
	"io"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestNothingNew: a message without features of versions 4 and 5 has the bytes of version 3, except for the number.
func TestNothingNew(t *testing.T) {
	r := source()
	for range 200 {
		for _, kind := range []Kind{KindAsk, KindAnswer, KindWelcome, KindHello} {
			v := withoutTail(messages()[kind-1].random(r))
			b := v.Append(nil)
			old := v
			switch v := v.(type) {
			case Welcome:
				v.Version = 3
				old = v
			case Hello:
				v.Version = 3
				old = v
			}
			want := old.Append(nil)
			if kind == KindWelcome || kind == KindHello {
				_, body := split(want)
				require.Equal(t, byte(3), body[0])
				want[len(want)-len(body)] = Version
			}
			require.Equal(t, want, b)
		}
	}
}

// TestTails: each value of a tail has one form: an empty tail is left out, and an invalid one is refused.
func TestTails(t *testing.T) {
	ask := slices.Concat(askHead, []byte{0}, deltaOf0, askTail)
	faultIn(t, KindAsk, append(slices.Clone(ask), 0, 0), "verify", ErrValue)
	faultIn(t, KindAsk, append(slices.Clone(ask), 3, 0), "verify", ErrValue)
	faultIn(t, KindAsk, append(slices.Clone(ask), 255, 9), "verify", ErrValue)
	for _, how := range []byte{4, 64 + 1, wantsClock + 3, wantsClock + 4} {
		faultIn(t, KindAsk, append(slices.Clone(ask), how, 9), "verify", ErrValue)
	}
	faultIn(t, KindAsk, append(slices.Clone(ask), 1), "ahead", io.ErrUnexpectedEOF)
	faultIn(t, KindAsk, append(slices.Clone(ask), 1, 0, 0), "end", ErrRest)

	welcome := append(uv(Version), zeros(5+6)...)
	faultIn(t, KindWelcome, append(slices.Clone(welcome), 0), "other template", io.ErrUnexpectedEOF)
	faultIn(t, KindWelcome, append(slices.Clone(welcome), 0, 0), "ahead", ErrValue)
	faultIn(t, KindWelcome, append(slices.Clone(welcome), 0, 2), "other template", ErrValue)
	faultIn(t, KindWelcome, append(slices.Clone(welcome), 1, 0, 0), "end", ErrRest)
	welcome[0] = 4
	faultIn(t, KindWelcome, append(slices.Clone(welcome), 0), "ahead", ErrValue)
	faultIn(t, KindWelcome, append(slices.Clone(welcome), 1, 0), "end", ErrRest)
	assert.Equal(t, frame(KindWelcome, append(slices.Clone(welcome), 1)),
		Welcome{Version: 4, Ahead: 1, OtherTemplate: true}.Append(nil), "version 4 has no field for a template")
	assert.Equal(t, frame(KindWelcome, welcome), Welcome{Version: 4, OtherTemplate: true}.Append(nil))
	welcome[0] = 3
	faultIn(t, KindWelcome, append(slices.Clone(welcome), 1), "end", ErrRest)

	answer := func(findings int, scores ...uint32) []byte {
		b := slices.Concat([]byte{0, 0, 9, 0}, uv(uint64(findings)), zeros(3*findings), []byte{0, 0})
		for _, s := range scores {
			b = append(b, byte(s), byte(s>>8), byte(s>>16), byte(s>>24))
		}
		return b
	}
	bits := math.Float32bits
	inf, never, none := bits(float32(math.Inf(1))), bits(float32(math.Inf(-1))), bits(float32(math.NaN()))
	minusZero := bits(float32(math.Copysign(0, -1)))
	for _, good := range [][]uint32{{bits(-1), bits(-2)}, {bits(-1), bits(-1)}, {bits(3), never}, {0, bits(-1)},
		{bits(1), 0}, {bits(math.MaxFloat32), bits(-math.MaxFloat32)}} {
		a, _, err := ParseAnswer(frame(KindAnswer, answer(1, good...)))
		require.NoError(t, err)
		assert.Equal(t, good, []uint32{bits(a.Audit[0].Score), bits(a.Audit[0].Stands)})
		assert.True(t, a.Scored())
	}
	for _, bad := range [][]uint32{{bits(-2), bits(-1)}, {inf, 0}, {never, never}, {none, 0}, {0, none}, {none, none},
		{minusZero, bits(-1)}, {bits(1), minusZero}, {bits(1), inf}, {inf, inf}, {0, 0}} {
		faultIn(t, KindAnswer, answer(1, bad...), "score", ErrValue)
	}
	faultIn(t, KindAnswer, answer(2, 0, 0, 0, 0), "score", ErrValue)
	faultIn(t, KindAnswer, answer(0, 1, 0), "end", ErrRest)
	faultIn(t, KindAnswer, answer(1, bits(1), 0, 0), "end", ErrRest)
	faultIn(t, KindAnswer, answer(2, bits(1), 0, bits(1)), "stands", io.ErrUnexpectedEOF)
	faultIn(t, KindAnswer, answer(2, bits(1), 0), "score", io.ErrUnexpectedEOF)
	_, _, err := ParseAnswer(frame(KindAnswer, answer(2, 0, 0, bits(1), 0)))
	assert.NoError(t, err, "a single nonzero score is enough")
}

// TestOneZero: negative zero is encoded as zero.
func TestOneZero(t *testing.T) {
	minus := float32(math.Copysign(0, -1))
	a := Answer{Reply: terms.Reply{Audited: 1, Audit: []terms.Finding{{Pos: 1, Score: minus, Stands: -1}}}}
	have, _, err := ParseAnswer(a.Append(nil))
	require.NoError(t, err)
	assert.False(t, math.Signbit(float64(have.Audit[0].Score)))
	assert.False(t, Answer{Reply: terms.Reply{Audit: []terms.Finding{{Score: minus, Stands: minus}}}}.Scored())
}

// TestCannotVerify: only an exact audit allows verification; the errors for others say what is needed.
func TestCannotVerify(t *testing.T) {
	assert.NoError(t, ExactAudit.CannotVerify())
	for a, words := range map[Audit]string{NoAudit: "looks at no tokens", SampledAudit: "audits one position"} {
		err := a.CannotVerify()
		assert.ErrorIs(t, err, CannotVerify)
		assert.ErrorContains(t, err, words)
		assert.ErrorContains(t, err, "sglang")
	}
}
