package tokenizer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// BenchmarkLoad loads the tokenizer of Qwen2.5 from a mapped file, as at the start of a program.
func BenchmarkLoad(b *testing.B) {
	f, err := gguf.Open(sharedtest.Shared(b, "data", "qwen2-vocab.gguf"))
	require.NoError(b, err)
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromGGUF(f); err != nil {
			b.Fatal(err)
		}
	}
}

// questions returns real English text.
func questions(b *testing.B) string {
	text, err := os.ReadFile(sharedtest.Shared(b, "data", "gsm8k", "test.jsonl"))
	require.NoError(b, err)
	return string(text)
}

func BenchmarkEncode(b *testing.B) {
	t := open(b, "data", "qwen2-vocab.gguf")
	for _, c := range mebibytes(questions(b)) {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				t.Encode(c.text, true)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	t := open(b, "data", "qwen2-vocab.gguf")
	text := questions(b)
	ids := t.Encode(text, false)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		t.Decode(ids)
	}
}

type namedText struct{ name, text string }

// mebibytes returns texts of about 1 MiB, some without any place to split.
func mebibytes(english string) []namedText {
	fill := func(s string) string { return strings.Repeat(s, 1<<20/len(s)) }
	return []namedText{
		{"english", fill(english)},
		{"chinese", fill("今天天气很好，我们去公园散步吧。")},
		{"html", fill("<p><b>bold</b></p>\n")},
		{"letters", fill("a")},
		{"words", fill("antidisestablishmentarianism")},
		{"spaces", fill(" ")},
		{"digits", fill("7")},
		{"emoji", fill("👩‍💻")},
		{"symbols", fill("=-")},
		{"lines", fill("\n")},
	}
}
