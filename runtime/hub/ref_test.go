package hub

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseRef(t *testing.T) {
	for text, want := range map[string]Ref{
		"Qwen/Qwen2.5-0.5B-Instruct-GGUF": {"Qwen", "Qwen2.5-0.5B-Instruct-GGUF", "main", "", ""},
		"a/b:m.gguf":                      {"a", "b", "main", "m.gguf", ""},
		"a/b@v1:sub/m.GGUF":               {"a", "b", "v1", "sub/m.GGUF", ""},
		"a/b@refs/pr/3":                   {"a", "b", "refs/pr/3", "", ""},
		"a/b:sub//./m.gguf":               {"a", "b", "main", "sub/m.gguf", ""},
		"a/b:Q4_K_M":                      {"a", "b", "main", "", "Q4_K_M"},
		"a/b:q4_k_m":                      {"a", "b", "main", "", "Q4_K_M"},
		"a/b@v1:ud-q4_k_xl":               {"a", "b", "v1", "", "UD-Q4_K_XL"},
		"a/b:latest":                      {"a", "b", "main", "", ""},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseRef(text)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	if r, err := ParseRef("a/b:m.gguf/"); err == nil {
		assert.Equal(t, "m.gguf", r.File, "like the one without the slash, or refused: never a folder")
	}
}

// TestLongRefs: names of the maximum length fit, and those that are a byte longer do not.
func TestLongRefs(t *testing.T) {
	for text, fits := range map[string]bool{
		"a/b:" + strings.Repeat("m", 245) + ".gguf": true, "a/b:" + strings.Repeat("m", 246) + ".gguf": false,
		"a/b:" + strings.Repeat("é", 122) + "m.gguf": true, "a/b:" + strings.Repeat("é", 123) + ".gguf": false,
		"a/" + strings.Repeat("b", 96): true, strings.Repeat("a", 97) + "/b": false,
		strings.Repeat("a", 96) + "/b":   true,
		"a/b:" + strings.Repeat("Q", 32): true, "a/b:" + strings.Repeat("Q", 33): false,
	} {
		_, err := ParseRef(text)
		assert.Equal(t, fits, err == nil, "%s: %v", text, err)
	}
}

func TestParseRefRefuses(t *testing.T) {
	for text, part := range map[string]string{
		"":                             "does not name a repository",
		"gpt2":                         "does not name a repository",
		"/b":                           "does not name a repository",
		"a/":                           "does not name a repository",
		"a/b/c":                        "does not name a repository",
		"a/..":                         "does not name a repository",
		"../b":                         "does not name a repository",
		"a b/c":                        "does not name a repository",
		"a/" + strings.Repeat("b", 97): "does not name a repository",
		"https://huggingface.co/a/b":   "is an address",
		"a/b@:m.gguf":                  "the revision after @",
		"a/b@x y":                      "the revision after @",
		"a/b:":                         "nothing follows the colon: write a quantisation",
		"a/b:m.bin":                    "does not end in .gguf",
		"a/b:.gguf":                    "does not end in .gguf",
		"a/b:../m.gguf":                "leads out",
		"a/b:x/../../m.gguf":           "leads out",
		"a/b:/m.gguf":                  "leads out",
		`a/b:..\m.gguf`:                "leads out",
		"a/b:c:m.gguf":                 "leads out",
		"a/b:" + strings.Repeat("m", 5000) + ".gguf": "mmm…\" (5005 bytes) is longer than the 250 bytes",
		"a/b:m\n.gguf":   "leads out",
		"a/b:m\x00.gguf": "leads out",
		"a/b:m\x7f.gguf": "leads out",
		"a/b:" + strings.Repeat("../", 9) + "etc/m.gguf": "leads out",
	} {
		t.Run(fmt.Sprintf("%.200s", text), func(t *testing.T) {
			_, err := ParseRef(text)
			require.ErrorContains(t, err, part)
		})
	}
}

// FuzzParseRef: parsing any text does not panic; a parsed reference is formatted in the same way, and its file is under
// the repository's folder.
func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"a/b", "a/b:c.gguf", "a/b@r:c/d.gguf", "a/b:../c.gguf", "a/b:c/../../d.gguf",
		`a/b:c\..\d.gguf`, "a/b@@:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRef(s)
		if err != nil {
			return
		}
		again, err := ParseRef(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
		if r.File == "" {
			return
		}
		at, err := localFilePath("models", r, r.File)
		require.NoError(t, err)
		within, err := filepath.Rel(filepath.Join("models", r.Owner, r.Name), at)
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(within), at)
	})
}
