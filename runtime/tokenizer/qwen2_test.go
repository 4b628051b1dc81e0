package tokenizer

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

const qwen2Dir = "qwen2-tokenizer" // in the data folder of the shared test data

// qwen25 returns the vocabulary of Qwen2.5, from the files of its release, as a converter writes it into a model with
// size rows.
func qwen25(t testing.TB, size int) vocabFile {
	t.Helper()
	var byText map[string]int
	readJSON(t, &byText, "data", qwen2Dir, "vocab.json")
	var config struct {
		Added map[string]struct {
			Content string
		} `json:"added_tokens_decoder"`
		Template string `json:"chat_template"`
	}
	readJSON(t, &config, "data", qwen2Dir, "tokenizer_config.json")
	tokens, types := make([]string, size), slices.Repeat([]int32{5}, size)
	for id := range tokens {
		tokens[id] = "[PAD" + strconv.Itoa(id) + "]"
	}
	for text, id := range byText {
		tokens[id], types[id] = text, 1
	}
	for key, added := range config.Added {
		id, err := strconv.Atoi(key)
		require.NoError(t, err)
		tokens[id], types[id] = added.Content, 3
		if strings.HasSuffix(added.Content, "tool_call>") {
			types[id] = 4
		}
	}
	merges, err := os.ReadFile(sharedtest.Shared(t, "data", qwen2Dir, "merges.txt"))
	require.NoError(t, err)
	return vocabFile{
		keyModel: "gpt2", keyPre: "qwen2", keyTokens: tokens, keyTypes: types,
		keyMerges: strings.Split(strings.TrimSuffix(string(merges), "\n"), "\n"),
		keyBOS:    uint32(151643), prefix + "eos_token_id": uint32(151645), keyAddBOS: false,
		keyTemplate: config.Template,
	}
}

// TestQwen25 compares with the ids of llama.cpp's test texts, and checks that all models of the family have one hash.
func TestQwen25(t *testing.T) {
	racing.Spare(t)
	tok := qwen25(t, 151936).tokenizer(t)
	read := func(ext string) string {
		b, err := os.ReadFile(sharedtest.Shared(t, "data", qwen2Dir, "ggml-vocab-qwen2.gguf."+ext))
		require.NoError(t, err)
		return string(b)
	}
	texts := strings.Split(read("inp"), "\n__ggml_vocab_test__\n")
	ids := strings.Split(strings.TrimSuffix(read("out"), "\n"), "\n")
	require.Len(t, texts, 46+1) // the last one ends the file
	require.GreaterOrEqual(t, len(ids), 46)
	for i, text := range texts[:46] {
		var want []int32
		for _, field := range strings.Fields(ids[i]) {
			id, err := strconv.Atoi(field)
			require.NoError(t, err)
			want = append(want, int32(id))
		}
		assert.Equal(t, want, tok.Encode(text, false), "text %d: %q", i, text)
		assert.Equal(t, text, tok.Decode(want))
	}
	assert.Equal(t, tok.Hash(), open(t, "data", "qwen2-vocab.gguf").Hash())
	assert.Equal(t, tok.Hash(), qwen25(t, 152064).tokenizer(t).Hash(), "the 7B model has more padding")
}

// TestQwen25Chat compares with the output of the release's template.
func TestQwen25Chat(t *testing.T) {
	tok := qwen25(t, 151936).tokenizer(t)
	got, err := tok.Chat(conversation, nil)
	require.NoError(t, err)
	assert.Equal(t, tok.Encode("<|im_start|>system\n"+
		"You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"+
		"<|im_start|>user\nWhat swims?<|im_end|>\n<|im_start|>assistant\n\n  The pilot fish. <|im_end|>\n"+
		"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n", true), got)
	for id, ends := range map[int32]bool{151643: true, 151645: true, 151644: false, 151657: false, 0: false} {
		assert.Equal(t, ends, tok.IsEnd(id), tok.Text(id))
	}
}

// TestQwen25IsTheReference compares with the reference on the words of a real vocabulary.
func TestQwen25IsTheReference(t *testing.T) {
	racing.Spare(t)
	v := qwen25(t, 151936)
	tok, ref := v.tokenizer(t), v.reference("<tool_call>", "</tool_call>")
	for _, line := range strings.Split(corpus, "\n") {
		assert.Equal(t, ref.encode(line), tok.Encode(line, false), line)
	}
	long := 1500
	if testing.Short() {
		long = 300
	}
	for _, c := range mebibytes(corpus) {
		text := strings.ToValidUTF8(c.text[:long], "")
		assert.Equal(t, ref.encode(text), tok.Encode(text, false), c.name)
	}
}
