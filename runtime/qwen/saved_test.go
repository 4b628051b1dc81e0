package qwen

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSavedCounts: the numbers of a header are checked before anything of that size is made or read.
func TestSavedCounts(t *testing.T) {
	const context = 6
	counts := []int{-1 << 40, -1, 0, 1, context - 1, context, context + 1, 1 << 40, 1 << 62}
	for _, tokens := range counts {
		for _, cached := range counts {
			own := Saved{Model: "m"}
			header, err := json.Marshal(Saved{Model: "m", Tokens: tokens, Cached: cached})
			require.NoError(t, err)
			b := binary.LittleEndian.AppendUint32([]byte(savedMagic), uint32(len(header)))
			b = append(append(b, header...), make([]byte, 4*context)...)
			_, text, err := ReadSaved(bytes.NewReader(b), own, context, 10)
			switch {
			case cached < 1 || tokens < cached:
				assert.ErrorIs(t, err, ErrNotSaved, "%d of %d", cached, tokens)
			case tokens > context:
				assert.ErrorIs(t, err, ErrContext, "%d of %d", cached, tokens)
			default:
				assert.NoError(t, err, "%d of %d", cached, tokens)
				assert.Len(t, text, tokens)
			}
		}
	}
}
