package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	newCommit = "0123456789abcdef0123456789abcdef01234567"
	oldCommit = "76543210fedcba9876543210fedcba9876543210"
)

// cacheOf makes a cache as huggingface_hub does, with links to blobs, or with files as on systems without links. A file
// that ends in ! is linked to a blob that has not arrived.
func cacheOf(t *testing.T, links bool, files ...string) string {
	t.Helper()
	dir := folder(t, "hub/version.txt")
	dir = filepath.Join(dir, "hub")
	for _, f := range files {
		f, gone := strings.CutSuffix(f, "!")
		path := filepath.Join(dir, filepath.FromSlash(f))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if !links || !strings.Contains(f, "/snapshots/") {
			require.NoError(t, os.WriteFile(path, []byte(f), 0o600))
			continue
		}
		repo, _, _ := strings.Cut(f, "/")
		blob := filepath.Join(dir, repo, "blobs", strings.ReplaceAll(f, "/", "_"))
		require.NoError(t, os.MkdirAll(filepath.Dir(blob), 0o700))
		if gone {
			require.NoError(t, os.WriteFile(blob+".incomplete", nil, 0o600))
		} else {
			require.NoError(t, os.WriteFile(blob, []byte(f), 0o600))
		}
		to, err := filepath.Rel(filepath.Dir(path), blob)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(to, path))
	}
	return dir
}

// ref writes the commit of a branch or tag.
func ref(t *testing.T, dir, repo, name, at string) {
	t.Helper()
	path := filepath.Join(dir, repo, "refs", filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(at), 0o600))
}

// TestLocate: a model that other tools have fetched is found in their cache, if it is complete and not pulled already.
func TestLocate(t *testing.T) {
	for _, links := range []bool{true, false} {
		const repo, now = "models--Qwen--Qwen3-0.6B-GGUF", "models--Qwen--Qwen3-0.6B-GGUF/snapshots/" + newCommit + "/"
		cache := cacheOf(t, links, now+"Qwen3-0.6B-Q8_0.gguf", now+"sub/m-q4_k_m.gguf", now+"README.md",
			now+"s-f16-00001-of-00002.gguf", now+"s-f16-00002-of-00002.gguf",
			repo+"/snapshots/"+oldCommit+"/Qwen3-0.6B-Q6_K.gguf", "models--o--none/blobs/x", "datasets--o--n/refs/main",
			"models--o--bad/snapshots/"+newCommit+"/m-q8_0.gguf", "models--o--cut/snapshots/"+newCommit+"/m-q4_0.gguf")
		ref(t, cache, repo, "main", newCommit+"\n")
		ref(t, cache, repo, "v/1", oldCommit)
		ref(t, cache, repo, "../elsewhere", newCommit) // not among the revisions
		ref(t, cache, "models--o--cut", "main", newCommit)
		ref(t, cache, "models--o--gone", "main", newCommit)
		ref(t, cache, "models--o--bad", "main", "../../models--Qwen--Qwen3-0.6B-GGUF/snapshots/"+newCommit)
		pulled := folder(t, "o/n/m-q8_0.gguf", "Qwen/Qwen3-0.6B-GGUF/other-q5_k_m.gguf", "o/cut/m-q8_0.gguf.part",
			"o/cut/m-q4_0.gguf.part")
		env := func(key string) string {
			return map[string]string{"HF_HUB_CACHE": cache, "PILOTFISH_MODELS": pulled}[key]
		}
		for name, file := range map[string]string{
			"Qwen/Qwen3-0.6B-GGUF:Q8_0":                   now + "Qwen3-0.6B-Q8_0.gguf",
			"qwen/qwen3-0.6b-gguf:q8_0":                   now + "Qwen3-0.6B-Q8_0.gguf",
			"Qwen/Qwen3-0.6B-GGUF:Qwen3-0.6B-Q8_0.gguf":   now + "Qwen3-0.6B-Q8_0.gguf",
			"Qwen/Qwen3-0.6B-GGUF:Q4_K_M":                 now + "sub/m-q4_k_m.gguf",
			"Qwen/Qwen3-0.6B-GGUF:F16":                    now + "s-f16-00001-of-00002.gguf",
			"Qwen/Qwen3-0.6B-GGUF@v/1:Q6_K":               repo + "/snapshots/" + oldCommit + "/Qwen3-0.6B-Q6_K.gguf",
			"Qwen/Qwen3-0.6B-GGUF@" + oldCommit + ":Q6_K": repo + "/snapshots/" + oldCommit + "/Qwen3-0.6B-Q6_K.gguf",
			"Qwen/Qwen3-0.6B-GGUF@" + newCommit + ":Q8_0": now + "Qwen3-0.6B-Q8_0.gguf",
			"o/cut:Q4_0": "models--o--cut/snapshots/" + newCommit + "/m-q4_0.gguf", // which is complete there
		} {
			path, in, err := Locate(env, name)
			require.NoError(t, err, name)
			assert.Equal(t, filepath.Join(cache, filepath.FromSlash(file)), path, name)
			assert.Equal(t, cache, in, name)
		}
		path, in, err := Locate(env, "o/n:Q8_0")
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(pulled, "o", "n", "m-q8_0.gguf"), path)
		assert.Empty(t, in, "it is pulled")
		path, in, err = Locate(env, "Qwen/Qwen3-0.6B-GGUF")
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(pulled, "Qwen", "Qwen3-0.6B-GGUF", "other-q5_k_m.gguf"), path)
		assert.Empty(t, in, "a pulled one first")

		for name, say := range map[string]string{
			"Qwen/Qwen3-0.6B-GGUF:Q6_K": "no such model", "o/none:Q8_0": "no such model", "o/bad:Q8_0": "no such model",
			"o/gone:Q8_0": "no such model",
			"o/cut:Q8_0":  "is not complete", "Qwen/Qwen3-0.6B-GGUF@v/2:Q6_K": "leave out @v/2",
			"Qwen/Qwen3-0.6B-GGUF@../../x:Q6_K": "revisions", "o/n:": "nothing follows",
			"Qwen/Qwen3-0.6B-GGUF@../elsewhere:Q8_0": "path escapes",
		} {
			_, in, err := Locate(env, name)
			assert.ErrorContains(t, err, say, name)
			assert.NotErrorIs(t, err, os.ErrNotExist, name)
			assert.Empty(t, in)
		}
		path, _, err = Locate(env, "./x.gguf")
		assert.NoError(t, err)
		assert.Equal(t, "./x.gguf", path)
	}
}

// TestLocateIncomplete: a link to a blob that has not arrived, and a split model without a part, are not found.
func TestLocateIncomplete(t *testing.T) {
	const now = "models--o--n/snapshots/" + newCommit + "/"
	cache := cacheOf(t, true, now+"m-q8_0.gguf!", now+"s-f16-00001-of-00002.gguf", now+"s-f16-00002-of-00002.gguf!",
		now+"a-q4_0.gguf", now+"b-q4_0.gguf")
	ref(t, cache, "models--o--n", "main", newCommit)
	env := func(key string) string {
		return map[string]string{"HF_HUB_CACHE": cache, "PILOTFISH_MODELS": cache}[key]
	}
	for _, name := range []string{"o/n:Q8_0", "o/n:F16"} {
		_, _, err := Locate(env, name)
		var missing *MissingError
		assert.ErrorAs(t, err, &missing, name)
	}
	_, _, err := Locate(env, "o/n:Q4_0")
	var many *AmbiguousError
	require.ErrorAs(t, err, &many)
	assert.Equal(t, []string{"o/n:a-q4_0.gguf", "o/n:b-q4_0.gguf"}, many.Refs)
}

// TestLocateFails: if a name can be several pulled models, none of the cache is taken in their place. A cache that
// cannot be read is an error.
func TestLocateFails(t *testing.T) {
	pulled := folder(t, "o/n/a-q8_0.gguf", "o/n/b-q8_0.gguf")
	cache := cacheOf(t, true, "models--o--n/snapshots/"+newCommit+"/m-q8_0.gguf")
	ref(t, cache, "models--o--n", "main", newCommit)
	env := func(key string) string {
		return map[string]string{"HF_HUB_CACHE": cache, "PILOTFISH_MODELS": pulled}[key]
	}
	_, _, err := Locate(env, "o/n:Q8_0")
	var many *AmbiguousError
	require.ErrorAs(t, err, &many)
	assert.Equal(t, []string{"o/n:a-q8_0.gguf", "o/n:b-q8_0.gguf"}, many.Refs)
	cache = filepath.Join(cache, "version.txt") // no folder
	_, _, err = Locate(env, "o/x")
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
	assert.ErrorContains(t, err, cache)
}

func TestCacheDir(t *testing.T) {
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for name, c := range map[string]struct{ hub, home, xdg, want string }{
		"the home of the user":     {"", "", "", filepath.Join(home, ".cache", "huggingface", "hub")},
		"the cache of the hub":     {"/a", "/b", "/c", "/a"},
		"the home of Hugging Face": {"", "/b", "/c", filepath.Join("/b", "hub")},
		"the cache of the user":    {"", "", "/c", filepath.Join("/c", "huggingface", "hub")},
	} {
		env := map[string]string{"HF_HUB_CACHE": c.hub, "HF_HOME": c.home, "XDG_CACHE_HOME": c.xdg}
		assert.Equal(t, c.want, hubCacheDir(func(key string) string { return env[key] }), name)
	}
}
