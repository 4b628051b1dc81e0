package tokenizer

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// brokenFile is a key of a valid file with another value, and the error.
type brokenFile struct {
	name, key string
	value     any
	err       error
	says      string
}

func brokenFiles(good vocabFile) []brokenFile {
	tokens, merges := good.strings(keyTokens), good.strings(keyMerges)
	types := good[keyTypes].([]int32)
	replaced := func(i int, text string) []string {
		all := slices.Clone(tokens)
		all[i] = text
		return all
	}
	last := len(tokens) - 1
	return []brokenFile{
		{"no model", keyModel, nil, gguf.ErrAbsent, ""},
		{"other model", keyModel, "llama", ErrUnsupported, `"llama"`},
		{"model of no name", keyModel, "", ErrUnsupported, `""`},
		{"model is a number", keyModel, uint32(2), nil, "string"},
		{"no pre-tokenizer", keyPre, nil, gguf.ErrAbsent, ""},
		{"other pre-tokenizer", keyPre, "llama-bpe", ErrUnsupported, `"llama-bpe"`},
		{"default pre-tokenizer", keyPre, "default", ErrUnsupported, `"default"`},
		{"no tokens", keyTokens, nil, gguf.ErrAbsent, ""},
		{"empty tokens", keyTokens, []string{}, ErrVocabulary, "no token"},
		{"tokens are numbers", keyTokens, types, nil, "string"},
		{"duplicate token", keyTokens, replaced(last, tokens[7]), ErrVocabulary, "ids 7 and"},
		{"missing byte", keyTokens, replaced(9, "nine"), ErrVocabulary, "no token for byte"},
		{"token of a merge missing", keyTokens, replaced(slices.Index(tokens, "the"), "teh"), ErrVocabulary, ""},
		{"too few types", keyTypes, types[1:], ErrVocabulary, "types for"},
		{"too many types", keyTypes, append(slices.Clone(types), 1), ErrVocabulary, "types for"},
		{"type out of range", keyTypes, append(slices.Clone(types[1:]), 7), ErrVocabulary, "type 7"},
		{"negative type", keyTypes, append(slices.Clone(types[1:]), -1), ErrVocabulary, "type -1"},
		{"types are text", keyTypes, tokens, nil, "integer"},
		{"no merges", keyMerges, nil, gguf.ErrAbsent, ""},
		{"merge of one token", keyMerges, append(slices.Clone(merges), "the"), ErrVocabulary, "merge 2"},
		{"empty merge", keyMerges, []string{""}, ErrVocabulary, "merge 0"},
		{"merge of a blank", keyMerges, []string{" "}, ErrVocabulary, "merge 0"},
		{"merge without right", keyMerges, []string{"t "}, ErrVocabulary, "merge 0"},
		{"merge without left", keyMerges, []string{" h"}, ErrVocabulary, "merge 0"},
		{"merge of three", keyMerges, []string{"t h e"}, ErrVocabulary, "merge 0"},
		{"merge of unknown left", keyMerges, []string{"zz h"}, ErrVocabulary, "merge 0"},
		{"merge of unknown right", keyMerges, []string{"t zz"}, ErrVocabulary, "merge 0"},
		{"merge into unknown", keyMerges, []string{"h h"}, ErrVocabulary, "merge 0"},
		{"BOS beyond the end", keyBOS, uint32(len(tokens)), ErrVocabulary, ""},
		{"BOS is 2^32-1", keyBOS, uint32(1<<32 - 1), ErrVocabulary, ""},
		{"EOS is negative", prefix + "eos_token_id", int32(-1), ErrVocabulary, ""},
		{"EOS is text", prefix + "eos_token_id", "<|im_end|>", nil, "integer"},
		{"FIM out of range", prefix + "fim_pad_token_id", uint32(1 << 20), ErrVocabulary, ""},
		{"add_bos is a number", keyAddBOS, uint32(1), nil, "bool"},
		{"template is a number", keyTemplate, uint32(1), nil, "string"},
	}
}

// TestBrokenFiles breaks a valid file in one place at a time. Each is refused with an error that names the key.
func TestBrokenFiles(t *testing.T) {
	good := newVocabFile(1, []string{"t h", "th e"})
	for _, c := range brokenFiles(good) {
		t.Run(c.name, func(t *testing.T) {
			_, err := FromGGUF(good.with(c.key, c.value).open(t))
			require.Error(t, err)
			var key *KeyError
			require.ErrorAs(t, err, &key)
			if c.name != "token of a merge missing" {
				assert.Equal(t, c.key, key.Key)
			} else {
				assert.Equal(t, keyMerges, key.Key)
			}
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
			assert.Equal(t, 1, strings.Count(err.Error(), key.Key), "%v", err)
			assert.ErrorContains(t, err, c.says)
		})
	}
	_, err := FromGGUF(good.with(keyAddBOS, true).with(keyBOS, nil).open(t))
	assert.ErrorContains(t, err, keyBOS)
}

// TestSparseFiles loads files with only the required metadata, or with unusual but harmless values.
func TestSparseFiles(t *testing.T) {
	good := newVocabFile(1, []string{"t h", "th e"})
	bare := vocabFile{keyModel: "gpt2", keyPre: "deepseek-r1-qwen",
		keyTokens: good[keyTokens], keyMerges: []string{}}.tokenizer(t)
	_, hasBOS := bare.BOS()
	_, hasEOS := bare.EOS()
	assert.False(t, hasBOS || hasEOS || bare.AddBOS())
	assert.Len(t, bare.Encode("the", false), 3)
	assert.Equal(t, "the", bare.Decode(bare.Encode("the", false)), "without types every token is normal")
	assert.True(t, bare.IsEnd(bare.vocab.lookupToken([]byte("<|im_end|>"))), "by its text, without a type")

	twice := good.with(keyMerges, []string{"t h", "th e", "t h"}).tokenizer(t)
	assert.Equal(t, good.tokenizer(t).Hash(), twice.Hash(), "the first occurrence of a merge counts")

	hash := func(pre string) [32]byte { return good.with(keyPre, pre).tokenizer(t).Hash() }
	assert.Equal(t, hash("qwen2"), hash("deepseek-r1-qwen"), "another name for the same")
	assert.NotEqual(t, hash("qwen2"), hash("qwen35"), "the same texts have other ids")

	tokens := slices.Clone(good.strings(keyTokens))
	n := len(tokens)
	tokens[n-1], tokens[n-2], tokens[n-3] = "", "[EMPTY_1]", ""
	types := slices.Clone(good[keyTypes].([]int32))
	types[n-1] = 0
	empty := good.with(keyTokens, tokens).with(keyTypes, types).tokenizer(t)
	assert.Equal(t, n, empty.Size())
	assert.Equal(t, fmt.Sprintf("[EMPTY_%d]", n-1), empty.Text(int32(n-1)))
	assert.Empty(t, empty.Bytes(int32(n-1)), "of undefined type")
}

func TestSpecialIDs(t *testing.T) {
	v := trained(1)
	id := func(text string) int32 { return int32(slices.Index(v.strings(keyTokens), text)) }
	tok := v.with(keyAddBOS, true).with(prefix+"eot_token_id", uint32(5)).tokenizer(t)
	bos, ok := tok.BOS()
	assert.True(t, ok && tok.AddBOS())
	assert.Equal(t, id("<|endoftext|>"), bos)
	eos, ok := tok.EOS()
	assert.True(t, ok)
	assert.Equal(t, id("<|im_end|>"), eos)
	for i := range int32(tok.Size()) {
		ends := []int32{id("<|endoftext|>"), id("<|im_end|>"), id("</s>"), 5}
		assert.Equal(t, slices.Contains(ends, i), tok.IsEnd(i), tok.Text(i))
		assert.Equal(t, slices.Contains(controlTokens, tok.Text(i)) || tok.Text(i) == "</s>", tok.IsControl(i),
			tok.Text(i))
	}
	assert.False(t, tok.IsEnd(-1) || tok.IsControl(-1) || tok.IsEnd(int32(tok.Size())) || tok.IsControl(1<<30))
}

// TestEnds: a generation ends at the tokens that the file names as ends, and at those with the spelling of one, which
// become control tokens.
func TestEnds(t *testing.T) {
	v := newVocabFile(1, nil)
	n := len(v.strings(keyTokens))
	spelled := []string{"<|eot_id|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
		"<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
		"<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["}
	others := []string{"<|start|>", "<end>", "EOS", "<turn>"}
	v[keyTokens] = slices.Concat(v.strings(keyTokens), spelled, others)
	v[keyTypes] = append(v[keyTypes].([]int32), slices.Repeat([]int32{1}, len(spelled)+len(others))...)
	v[keyMerges] = []string{}
	tok := v.tokenizer(t)
	for i := range len(spelled) + len(others) {
		id := int32(n + i)
		assert.Equal(t, i < len(spelled), tok.IsEnd(id), tok.Text(id))
		assert.Equal(t, i < len(spelled), tok.IsControl(id), tok.Text(id))
	}
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		tok := v.with(prefix+key, uint32(7)).tokenizer(t)
		assert.True(t, tok.IsEnd(7), key)
		assert.False(t, tok.IsEnd(8) || tok.IsControl(7), key)
	}
}

// TestManyMerges: merges that are looked up in several batches have the ranks of their places in the file, whichever
// batch is ready first. A merge that is there twice has its lower rank, and the first wrong one is named.
func TestManyMerges(t *testing.T) {
	const pairs = 2*mergesOfBatch + 1
	var merges []string
	for i := range pairs {
		merges = append(merges, string(byteToRune(byte(i/256)))+" "+string(byteToRune(byte(i%256))))
	}
	v := newVocabFile(1, nil)
	tokens := v.strings(keyTokens)
	for _, m := range merges {
		tokens = append(tokens, strings.Replace(m, " ", "", 1))
	}
	v = v.with(keyTokens, tokens).with(keyTypes, slices.Repeat([]int32{1}, len(tokens)))
	const twice = mergesOfBatch + 3
	tok := v.with(keyMerges, slices.Insert(slices.Clone(merges), twice, merges[5])).tokenizer(t)
	var want []pair
	for i, m := range merges {
		left, right, _ := strings.Cut(m, " ")
		p := newPair(tok.vocab.lookupToken([]byte(left)), tok.vocab.lookupToken([]byte(right)))
		want = append(want, p)
		rank := i
		if i >= twice {
			rank++
		}
		made := tok.vocab.lookupToken([]byte(left + right))
		require.Equal(t, newRule(rank, made), tok.rules.lookupRule(p.left(), p.right()), "merge %d", i)
	}
	require.Equal(t, want, tok.rules.pairsByRank())

	for _, wrong := range [][]int{{pairs - 1}, {mergesOfBatch}, {mergesOfBatch - 1, mergesOfBatch}, {3, pairs - 1}} {
		broken := slices.Clone(merges)
		for _, at := range wrong {
			broken[at] = "x nowhere"
		}
		_, err := FromGGUF(v.with(keyMerges, broken).open(t))
		require.ErrorContains(t, err, fmt.Sprintf("merge %d, ", wrong[0]))
	}
}

func TestHash(t *testing.T) {
	v := newVocabFile(1, []string{"t h", "th e", "a b", "a c", "c b"}).with(keyMerges, []string{"t h", "th e", "a b"})
	tokens, types := v.strings(keyTokens), v[keyTypes].([]int32)
	want := v.tokenizer(t).Hash()
	assert.Equal(t, "1bf8a2d70cc5be1943a9043911cc1d69916b5854e07097b45fc2ce0e8c84e8c0", hex.EncodeToString(want[:]),
		"other builds compare it")
	padded := v.with(keyTokens, append(slices.Clone(tokens), "[PAD3]")).with(keyTypes, append(slices.Clone(types), 5))
	assert.Equal(t, want, padded.tokenizer(t).Hash(), "padding does not count")
	same := v.with(keyBOS, uint32(3)).with(keyTemplate, "<|im_start|><|im_end|>").with("general.name", "x")
	assert.Equal(t, want, same.tokenizer(t).Hash(), "a BOS that is not added does not count")

	swapped := slices.Clone(tokens)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	retyped := slices.Clone(types)
	retyped[len(types)-6] = 1
	for name, other := range map[string]vocabFile{
		"tokens":  v.with(keyTokens, swapped),
		"types":   v.with(keyTypes, retyped),
		"merges":  v.with(keyMerges, []string{"t h", "a b", "th e"}),
		"left":    v.with(keyMerges, []string{"t h", "th e", "c b"}),
		"right":   v.with(keyMerges, []string{"t h", "th e", "a c"}),
		"fewer":   v.with(keyMerges, []string{"t h", "th e"}),
		"add BOS": v.with(keyAddBOS, true),
		"ends":    v.with(prefix+"eot_token_id", uint32(3)),
	} {
		assert.NotEqual(t, want, other.tokenizer(t).Hash(), name)
	}
}

// FuzzFromGGUF changes bytes of a valid file: loading does not panic, and a loaded tokenizer can be used.
func FuzzFromGGUF(f *testing.F) {
	good := newVocabFile(1, []string{"t h", "th e", "Ġ the"}).bytes(f)
	f.Add(uint32(0), byte(0))
	f.Add(uint32(len(good)/2), byte(1))
	f.Add(uint32(len(good)-3), byte(128))
	f.Add(uint32(5414), byte(5)) // a byte token becomes user-defined
	f.Fuzz(func(t *testing.T, at uint32, flip byte) {
		b := slices.Clone(good)
		b[int(at)%len(b)] ^= flip
		file, err := gguf.Parse(b)
		if err != nil {
			return
		}
		tok, err := FromGGUF(file)
		if err != nil {
			return
		}
		ids := tok.Encode(corpus, false)
		if !slices.ContainsFunc(ids, func(id int32) bool { return tok.vocab.kinds[id] != normal }) {
			assert.Equal(t, corpus, tok.Decode(ids))
		}
		_, _ = tok.Chat([]Message{{Role: "user", Content: "hi"}}, nil)
		tok.Hash()
	})
}
