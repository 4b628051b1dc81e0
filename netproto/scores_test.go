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

// TestScores: the scores of an answer have one form: they are left out if all are 0, and invalid ones are refused.
func TestScores(t *testing.T) {
	answer := func(findings int, scores ...uint32) []byte {
		b := slices.Concat([]byte{0, 0, 9}, uv(uint64(findings)), zeros(3*findings), []byte{0, 0})
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
		assert.Equal(t, good[0], bits(a.Audit[0].Score))
		assert.Equal(t, good[1], bits(a.Audit[0].Stands))
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
	assert.NoError(t, CannotJudge("a", "a"))
	assert.NoError(t, CannotJudge("a", ""), "none is wanted")
	assert.ErrorIs(t, CannotJudge("", "a"), CannotVerify)
	assert.ErrorContains(t, CannotJudge("", "a"), "has no judge")
	assert.ErrorContains(t, CannotJudge("a", "b"), "give both the same")
	err := NoAudit.CannotVerify()
	assert.ErrorIs(t, err, CannotVerify)
	assert.ErrorContains(t, err, "looks at no tokens")
	assert.ErrorContains(t, err, "sglang")
}
