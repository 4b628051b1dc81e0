package tokenizer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/testdata"
)

// BenchmarkLoad makes the tokenizer of Qwen2.5 from a mapped file, as at the start of a program.
func BenchmarkLoad(b *testing.B) {
	f, err := gguf.Open(testdata.Shared(b, "data", "qwen2-vocab.gguf"))
	require.NoError(b, err)
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromGGUF(f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	t := open(b, "data", "qwen2-vocab.gguf")
	for b.Loop() {
		t.digest()
	}
}

// BenchmarkEncode encodes 1 MiB of text of several kinds, some without any place to split.
func BenchmarkEncode(b *testing.B) {
	t := open(b, "data", "qwen2-vocab.gguf")
	for _, c := range mebibytes(b) {
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
	ids := t.Encode(mebibytes(b)[0].text, false)
	b.SetBytes(1 << 20)
	for b.Loop() {
		t.Decode(ids)
	}
}

type namedText struct{ name, text string }

// mebibytes returns texts of 1 MiB.
func mebibytes(tb testing.TB) []namedText {
	fill := func(s string) string { return strings.Repeat(s, 1<<20/len(s)+1)[:1<<20/len(s)*len(s)] }
	english, err := os.ReadFile(testdata.Shared(tb, "data", "gsm8k", "test.jsonl"))
	if err != nil {
		english = []byte("The quick brown fox doesn't jump over 13 lazy dogs; it sleeps.\n")
	}
	return []namedText{
		{"english", fill(string(english))},
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
