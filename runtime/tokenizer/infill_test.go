package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withMarks returns a vocabulary with the marks of Qwen2.5-Coder, optionally with those of repositories.
func withMarks(t *testing.T, repository bool) *Tokenizer {
	marks := []string{"<|fim_middle|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_pad|>"} // one has the id 0
	if repository {
		marks = append(marks, "<|repo_name|>", "<|file_sep|>")
	}
	v := trained(1)
	types := append(slices.Repeat([]int32{3}, len(marks)), v[keyTypes].([]int32)...)
	return v.with(keyTokens, append(marks, v.strings(keyTokens)...)).with(keyTypes, types).tokenizer(t)
}

// spelled formats a prompt with its marks.
func spelled(t *Tokenizer, ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if t.IsControl(id) {
			b.WriteString(t.Text(id))
		}
		b.Write(t.Bytes(id))
	}
	return b.String()
}

// TestInfill: prompts have the format of the paper, special tokens in texts are text, and what does not fit is left
// out: the first files, the beginning of the prefix and the end of the suffix.
func TestInfill(t *testing.T) {
	tok := withMarks(t, true)
	files := []struct{ Name, Text string }{{"a.py", "one\n"}, {"b.py", "two\n"}}
	long := strings.Repeat("ab ", 40)
	for _, c := range []struct {
		name string
		f    Infill
		want string
	}{
		{"nothing", Infill{}, "<|fim_prefix|><|fim_suffix|><|fim_middle|>"},
		{"a mark in a text", Infill{Prefix: "x <|fim_middle|>", Suffix: " y"},
			"<|fim_prefix|>x <|fim_middle|><|fim_suffix|> y<|fim_middle|>"},
		{"a repository", Infill{Prefix: "x", Suffix: "y", Repo: "r", Name: "c.py", Files: files},
			"<|repo_name|>r\n<|file_sep|>a.py\none\n<|file_sep|>b.py\ntwo\n<|file_sep|>c.py\n" +
				"<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>"},
		{"files of no repository", Infill{Prefix: "x", Suffix: "y", Files: files},
			"<|file_sep|>a.py\none\n<|file_sep|>b.py\ntwo\n<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids, err := tok.Infill(c.f)
			require.NoError(t, err)
			assert.Equal(t, c.want, spelled(tok, ids))
			assert.Equal(t, len(ids)-1, slices.Index(ids, tok.fim[2]), "the mark is only at the end")
		})
	}
	for most := 1; most < 100; most++ {
		ids, err := tok.Infill(Infill{Prefix: long + "<", Suffix: ">" + long, Repo: "r", Name: "c.py", Files: files,
			Most: most})
		require.NoError(t, err)
		require.Len(t, ids, max(most, 3), "the prompt has the max length, or only the marks")
		text := spelled(tok, ids)
		before, after, _ := strings.Cut(strings.TrimPrefix(text, "<|fim_prefix|>"), "<|fim_suffix|>")
		assert.True(t, strings.HasSuffix(long+"<", before), text)
		assert.True(t, strings.HasPrefix(">"+long, strings.TrimSuffix(after, "<|fim_middle|>")), text)
		suffix := slices.Index(ids, tok.fim[1])
		assert.Equal(t, max(most-3, 0)/4, len(ids)-suffix-2, "a quarter is for the suffix")
	}
	whole, err := tok.Infill(Infill{Prefix: "x", Suffix: "y", Repo: "r", Name: "c.py", Files: files})
	require.NoError(t, err)
	less, err := tok.Infill(Infill{
		Prefix: "x", Suffix: "y", Repo: "r", Name: "c.py", Files: files, Most: len(whole) - 5,
	})
	require.NoError(t, err)
	assert.Equal(t, "<|file_sep|>b.py\ntwo\n<|file_sep|>c.py\n<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>",
		spelled(tok, less))
	short, err := tok.Infill(Infill{Prefix: "x", Suffix: long, Most: 23})
	require.NoError(t, err)
	assert.Len(t, short, 23, "a short prefix leaves room for the suffix")
}

// TestInfillKeys: the file may name the marks, by either of two keys, of which the second one counts more. What it
// names counts more than a spelling.
func TestInfillKeys(t *testing.T) {
	for i, keys := range [][]string{
		{"fim_pre_token_id", "prefix_token_id"}, {"fim_suf_token_id", "suffix_token_id"},
		{"fim_mid_token_id", "middle_token_id"}, {"fim_pad_token_id"}, {"fim_rep_token_id"}, {"fim_sep_token_id"},
	} {
		of := func(named map[string]uint32) int32 {
			v := trained(1)
			marks := []string{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>",
				"<|file_sep|>"}
			v[keyTokens] = append(slices.Clone(v.strings(keyTokens)), marks...)
			v[keyTypes] = append(slices.Clone(v[keyTypes].([]int32)), slices.Repeat([]int32{3}, len(marks))...)
			for key, id := range named {
				v[prefix+key] = id
			}
			return v.tokenizer(t).fim[i]
		}
		first, spelled := keys[0], of(nil)
		assert.GreaterOrEqual(t, spelled, int32(256))
		assert.EqualValues(t, 5, of(map[string]uint32{first: 5}), first)
		if len(keys) > 1 {
			assert.EqualValues(t, 6, of(map[string]uint32{keys[1]: 6}), keys[1])
			assert.EqualValues(t, 6, of(map[string]uint32{first: 5, keys[1]: 6}), "both")
		}
	}
}

// TestInfillMarks: without the marks of repositories files precede the prefix, and without those of infill there is no
// prompt.
func TestInfillMarks(t *testing.T) {
	tok := withMarks(t, false)
	ids, err := tok.Infill(Infill{Prefix: "x", Suffix: "y", Repo: "r", Name: "c.py",
		Files: []struct{ Name, Text string }{{"a.py", "one"}}})
	require.NoError(t, err)
	assert.Equal(t, "one\n<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>", spelled(tok, ids))
	_, err = trained(1).tokenizer(t).Infill(Infill{Prefix: "x"})
	assert.ErrorIs(t, err, ErrUnsupported)
}
