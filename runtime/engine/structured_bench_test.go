package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/schema"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// qwenVocabulary returns the vocabulary of Qwen2, with 151,936 tokens.
func qwenVocabulary(tb testing.TB) (*tokenizer.Tokenizer, *grammar.Vocabulary) {
	f, err := gguf.Open(sharedtest.Shared(tb, "data", "qwen2-vocab.gguf"))
	require.NoError(tb, err)
	defer f.Close()
	t, err := tokenizer.FromGGUF(f)
	require.NoError(tb, err)
	start := time.Now()
	v, err := grammar.NewVocabulary(t.Size(), t.Bytes, t.IsEnd)
	require.NoError(tb, err)
	tb.Logf("%d tokens: the tree is made in %v", t.Size(), time.Since(start))
	return t, v
}

const benchSchema = `{"type":"object","properties":{"name":{"type":"string"},` +
	`"age":{"type":"integer","minimum":0,"maximum":150},
"tags":{"type":"array","items":{"type":"string","maxLength":20}},"kind":{"enum":["red","green","blue"]},
"when":{"type":"string","format":"date-time"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
"required":["name","age","tags","kind","when","next"],"additionalProperties":false}`

// BenchmarkMask computes the masks of a text with a vocabulary of Qwen's size: the first time, and from the cache.
func BenchmarkMask(b *testing.B) {
	t, v := qwenVocabulary(b)
	text := `{"name": "Ada Lovelace, a \"countess\" of Ōta 東京", "age": 36, "tags": ["mathematics", "engines"], ` +
		`"kind": "green", "when": "1843-07-10T12:00:00Z", ` +
		`"next": {"name":"x","age":1,"tags":[],"kind":"red","when":"1843-07-10T12:00:00Z","next":null}}`
	ids := t.Encode(text, false)
	for _, fresh := range []bool{true, false} {
		b.Run(fmt.Sprintf("fresh=%v", fresh), func(b *testing.B) {
			g, err := schema.Compile(b.Context(), []byte(benchSchema), false)
			require.NoError(b, err)
			m := grammar.NewMatcher(g, v)
			var mask grammar.Mask
			slow, worst, all := 0, time.Duration(0), 0
			for b.Loop() {
				if fresh {
					m = grammar.NewMatcher(g, v)
				}
				s := m.Start()
				for _, id := range ids {
					start := time.Now()
					mask = m.Mask(mask, s)
					took := time.Since(start)
					if worst = max(worst, took); took > time.Millisecond {
						slow++
					}
					all++
					require.True(b, mask.Has(id), "%q", t.Bytes(id))
					s = m.Next(s, id)
				}
				require.True(b, s.Done())
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(all), "µs/mask")
			b.ReportMetric(100*float64(slow)/float64(all), "%>1ms")
			b.ReportMetric(float64(worst.Microseconds()), "µs-worst")
		})
	}
}
