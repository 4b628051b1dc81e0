package hub

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// folder makes a folder of models with these files, each of which contains its name.
func folder(t testing.TB, files ...string) string {
	t.Helper()
	dir := held.TempDir(t)
	for _, f := range files {
		p := filepath.Join(dir, filepath.FromSlash(f))
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		require.NoError(t, os.WriteFile(p, []byte(f), 0o600))
	}
	return dir
}

func TestQuantOf(t *testing.T) {
	for name, want := range map[string]string{
		"qwen2.5-0.5b-instruct-q8_0.gguf":   "Q8_0",
		"Qwen2.5-0.5B-Instruct.Q4_K_M.gguf": "Q4_K_M",
		"m-Q4_K_M-00001-of-00003.gguf":      "Q4_K_M",
		"m-UD-Q4_K_XL.gguf":                 "UD-Q4_K_XL",
		"m-iq4_xs.gguf":                     "IQ4_XS",
		"m-bf16.gguf":                       "BF16",
		"m-f16.gguf":                        "F16",
		"q4_0-q5_1.gguf":                    "Q5_1",
		"BF16/model-00001-of-00002.gguf":    "BF16",
		"sub/Q2_K/m-Q3_K_L.gguf":            "Q3_K_L",
		"model.gguf":                        "",
		"qwen2.5-7b.gguf":                   "",
		"m-q.gguf":                          "",
		"mq8_0.gguf":                        "", "m-q8_0x.gguf": "Q8_0X",
		"TQ1_0.gguf":              "TQ1_0",
		"m-q8_0.f32.gguf":         "F32",
		"Qwen3-4B-MXFP4_MOE.gguf": "MXFP4_MOE",
	} {
		assert.Equal(t, want, parseQuant(name), name)
	}
}

func TestChooseQuant(t *testing.T) {
	var listed []remoteFile
	for _, n := range []string{"m-f16.gguf", "m-Q4_K_M-00001-of-00002.gguf", "m-Q4_K_M-00002-of-00002.gguf",
		"m-UD-Q4_K_M.gguf", "m-UD-Q5_K_XL.gguf", "a-q6_k.gguf", "b-q6_k.gguf", "BF16/m-00001-of-00001.gguf"} {
		listed = append(listed, remoteFile{name: n, size: 1e6})
	}
	for quant, want := range map[string][]string{
		"F16":        {"m-f16.gguf"},
		"BF16":       {"BF16/m-00001-of-00001.gguf"}, // by its folder
		"Q4_K_M":     {"m-Q4_K_M-00001-of-00002.gguf", "m-Q4_K_M-00002-of-00002.gguf"},
		"UD-Q4_K_M":  {"m-UD-Q4_K_M.gguf"},
		"UD-Q5_K_XL": {"m-UD-Q5_K_XL.gguf"},
		"Q5_K_XL":    {"m-UD-Q5_K_XL.gguf"}, // a longer name, but the only file with it
	} {
		got, err := chooseModel(Ref{Owner: "o", Name: "n", Quant: quant}, listed)
		require.NoError(t, err, quant)
		var names []string
		for _, g := range got {
			names = append(names, g.name)
		}
		assert.Equal(t, want, names, quant)
	}
	_, err := chooseModel(Ref{Owner: "o", Name: "n", Revision: "main", Quant: "Q8_0"}, listed)
	assert.ErrorContains(t, err,
		"it has no file of the quantisation Q8_0; there are:\n  o/n:BF16/m-00001-of-00001.gguf  (1.0 MB)\n"+
			"  o/n:a-q6_k.gguf")
	_, err = chooseModel(Ref{Owner: "o", Name: "n", Revision: "main", Quant: "Q6_K"}, listed)
	assert.ErrorContains(t, err,
		"several of its files are of the quantisation Q6_K; there are:\n  o/n:a-q6_k.gguf  (1.0 MB)\n  o/n:b-q6_k.gguf")
	assert.NotContains(t, err.Error(), "f16", "only matching files")
}

func TestModels(t *testing.T) {
	dir := folder(t, "o/n/m-q8_0.gguf", "o/n/m-q8_0.gguf.lock", "o/n/m-q4_k_m.gguf.part",
		"o/s/q2_k/m-q2_k-00001-of-00003.gguf", "o/s/q2_k/m-q2_k-00003-of-00003.gguf",
		"o/s/q2_k/m-q2_k-00002-of-00003.gguf.part", "o/s/readme.md", "b.gguf", ".hidden/n/m.gguf", "a/n/m.gguf",
		"a/n/m.gguf.part", "o/file")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a/n/m.gguf"), at, at))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a/n/m.gguf.part"), at, at.Add(-time.Hour)))
	for i, part := range []string{"1-of-00003.gguf", "2-of-00003.gguf.part", "3-of-00003.gguf"} {
		when := at.Add([]time.Duration{time.Hour, 3 * time.Hour, 2 * time.Hour}[i])
		require.NoError(t, os.Chtimes(filepath.Join(dir, "o/s/q2_k/m-q2_k-0000"+part), when, when))
	}
	all, err := Models(dir)
	require.NoError(t, err)
	require.Len(t, all, 4)
	assert.Equal(t, Model{Owner: "a", Name: "n", File: "m.gguf", Path: filepath.Join(dir, "a", "n", "m.gguf"),
		Size: int64(len("a/n/m.gguf") + len("a/n/m.gguf.part")), Modified: all[0].Modified}, all[0])
	assert.True(t, at.Equal(all[0].Modified))
	assert.True(t, at.Add(3*time.Hour).Equal(all[3].Modified), "of the latest part, complete or not")
	assert.Equal(t, "o/n:Q4_K_M 1, o/n:Q8_0 0, o/s:Q2_K 1", summary(all[1:]))
	assert.EqualValues(t, len("o/s/q2_k/m-q2_k-00001-of-00003.gguf")*3+len(".part"), all[3].Size)
	assert.Equal(t, filepath.Join(dir, "o", "s", "q2_k", "m-q2_k-00001-of-00003.gguf"), all[3].Path)
	assert.Equal(t, "a/n:m.gguf", all[0].Ref(all), "without a quantisation the name is the file")

	none, err := Models(filepath.Join(dir, "nowhere"))
	assert.NoError(t, err)
	assert.Empty(t, none)
	_, err = Models(filepath.Join(dir, "b.gguf"))
	assert.Error(t, err, "a file is not a folder")
}

// TestLinkedFolders: folders of owners and repositories may be links, such as to another disk. Removing a model removes
// no link, because the folder behind it may hold others.
func TestLinkedFolders(t *testing.T) {
	dir := folder(t, "real/o/n/m-q8_0.gguf", "real/o/n/sub/x-f16.gguf", "models/p/q/y.gguf", "models/p/q/z.gguf")
	models := filepath.Join(dir, "models")
	require.NoError(t, os.Symlink(filepath.Join(dir, "real", "o"), filepath.Join(models, "owner")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "real", "o", "n"), filepath.Join(models, "p", "linked")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(models, "p", "gone")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(models, "p", "q", "folder.gguf")))
	all, err := Models(models)
	require.NoError(t, err)
	assert.Equal(t, "owner/n:Q8_0 0, owner/n:F16 0, p/linked:Q8_0 0, p/linked:F16 0, p/q:y.gguf 0, p/q:z.gguf 0",
		summary(all))
	assert.Equal(t, filepath.Join(models, "p", "linked", "sub", "x-f16.gguf"), all[3].Path)
	for _, name := range []string{"p/linked:Q8_0", "owner/n:F16"} {
		m, err := Find(models, name)
		require.NoError(t, err)
		require.NoError(t, Remove(models, m))
	}
	all, err = Models(models)
	require.NoError(t, err)
	assert.Equal(t, "p/q:y.gguf 0, p/q:z.gguf 0", summary(all))
	for _, link := range []string{"owner", "p/linked"} {
		_, err := os.Lstat(filepath.Join(models, link))
		assert.NoError(t, err, link)
	}
}

// summary returns the name of each model, and the number of its missing parts.
func summary(all []Model) string {
	var b []string
	for _, m := range all {
		b = append(b, m.Ref(all)+" "+string(rune('0'+m.Missing)))
	}
	return strings.Join(b, ", ")
}

func TestResolve(t *testing.T) {
	dir := folder(t, "o/n/m-q8_0.gguf", "o/n/m-Q4_K_M.gguf", "o/one/x.gguf", "o/s/m-f16-00001-of-00002.gguf",
		"o/s/m-f16-00002-of-00002.gguf", "o/part/m-q8_0-00001-of-00002.gguf", "o/two/a-q8_0.gguf", "o/two/b-q8_0.gguf",
		"o/two/c-q8_0.gguf.part",
		"o/cut/m-q8_0.gguf.part", "o/both/m-q8_0.gguf", "o/both/m-q4_0.gguf.part", "O/N/m-q2_k.gguf", "o/S/y.gguf")
	t.Chdir(held.TempDir(t))
	require.NoError(t, os.MkdirAll("o/n", 0o700))
	require.NoError(t, os.WriteFile("o/one", []byte("a file"), 0o600))
	for name, want := range map[string]string{
		"o/n:Q8_0": "o/n/m-q8_0.gguf", "o/n:q4_k_m": "o/n/m-Q4_K_M.gguf", "o/n:m-q8_0.gguf": "o/n/m-q8_0.gguf",
		"o/s": "o/s/m-f16-00001-of-00002.gguf", "o/s:latest": "o/s/m-f16-00001-of-00002.gguf",
		"O/S:F16":                       "o/s/m-f16-00001-of-00002.gguf",
		"o/s:m-f16-00002-of-00002.gguf": "o/s/m-f16-00001-of-00002.gguf",
		"o/both":                        "o/both/m-q8_0.gguf", "O/N": "O/N/m-q2_k.gguf", "o/S": "o/S/y.gguf",
		"o/two:a-q8_0.gguf": "o/two/a-q8_0.gguf",
		"o/two:A-q8_0.gguf": "",
	} {
		got, err := resolveModelPath(dir, name)
		if want == "" {
			assert.Error(t, err)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, filepath.Join(dir, filepath.FromSlash(want)), got, name)
	}
	for _, path := range []string{"o/one", "o/n", "m.gguf", "/nowhere/m", "models/m.gguf", "./o/s", "a/b/c", "a b/c",
		"../n", "", "-", `c:\m.gguf`, "https://x/y"} {
		got, _, err := Locate(func(string) string { return dir }, path)
		require.NoError(t, err, path)
		assert.Equal(t, path, got, "a path, or an existing file")
	}
	_, err := resolveModelPath(dir, "o/two")
	many, ok := errors.AsType[*AmbiguousError](err)
	require.True(t, ok)
	assert.Equal(t, []string{"o/two:a-q8_0.gguf", "o/two:b-q8_0.gguf"}, many.Refs, "an incomplete one is no choice")
	for name, want := range map[string]string{
		"x/y":            `there is no file x/y, and no such model in ` + dir + `: fetch it with "pilotfish pull x/y"`,
		"o/n:Q5_K_M":     `"pilotfish pull o/n:Q5_K_M", or name one that is here: o/n:Q4_K_M, o/n:Q8_0`,
		"o/two":          "o/two can be any of these: name one of them: o/two:a-q8_0.gguf, o/two:b-q8_0.gguf",
		"o/two:q8_0":     "o/two:Q8_0 can be any of these",
		"o/part":         `is not complete: "pilotfish pull o/part:m-q8_0-00001-of-00002.gguf" fetches the rest`,
		"o/cut:Q8_0":     `is not complete: "pilotfish pull o/cut:m-q8_0.gguf" fetches the rest`,
		"o/s@v1":         "leave out @v1",
		"o/s:m.bin":      "is no quantisation such as Q4_K_M either",
		"o/s:../m.gguf":  "leads out of the repository",
		"o/n@main:Q9_9x": `pull o/n:Q9_9X"`,
	} {
		_, err := resolveModelPath(dir, name)
		assert.ErrorContains(t, err, want, name)
	}
	_, err = resolveModelPath(dir, "x/y:q8_0")
	missing, ok := errors.AsType[*MissingError](err)
	require.True(t, ok)
	assert.Equal(t, Ref{"x", "y", "main", "", "Q8_0"}, missing.Ref, "as in the arguments of pull")
}

func TestRemove(t *testing.T) {
	dir := folder(t, "o/s/q/m-00001-of-00002.gguf", "o/s/q/m-00002-of-00002.gguf.part",
		"o/s/q/other.gguf", "o/t/m.gguf")
	m, err := Find(dir, "o/s:q/m-00001-of-00002.gguf")
	require.NoError(t, err)
	unlock, err := lockFile(filepath.Join(dir, "o/s/q/m-00002-of-00002.gguf.lock"))
	require.NoError(t, err)
	assert.ErrorIs(t, Remove(dir, m), ErrBusy)
	assert.FileExists(t, filepath.Join(dir, "o/s/q/m-00001-of-00002.gguf"), "nothing is removed")
	unlock()
	require.NoError(t, Remove(dir, m))
	left, err := os.ReadDir(filepath.Join(dir, "o/s/q"))
	require.NoError(t, err)
	require.Len(t, left, 1, "locks are gone, too")
	assert.Equal(t, "other.gguf", left[0].Name())

	m, err = Find(dir, "o/s")
	require.NoError(t, err)
	require.NoError(t, Remove(dir, m))
	assert.NoDirExists(t, filepath.Join(dir, "o/s"))
	assert.DirExists(t, filepath.Join(dir, "o"), "it contains another file")
	assert.DirExists(t, dir)

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "o/t/m.gguf.part/x"), 0o700))
	m, err = Find(dir, "o/t")
	require.NoError(t, err)
	assert.ErrorContains(t, Remove(dir, m), filepath.Join(dir, "o/t/m.gguf.part"))
	assert.NoFileExists(t, filepath.Join(dir, "o/t/m.gguf"), "the rest is removed")
}

// FuzzResolve: resolving any name does not panic, and gives a file in the folder.
func FuzzResolve(f *testing.F) {
	dir := folder(f, "o/n/m-q8_0.gguf", "o/s/m-f16-00001-of-00002.gguf", "o/s/m-f16-00002-of-00002.gguf")
	for _, s := range []string{"o/n", "o/n:q8_0", "o/s:m-f16-00002-of-00002.gguf", "../o/n", "o/n:../../x.gguf",
		"o/n@v:F16", "o/../n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := resolveModelPath(dir, name)
		if err != nil {
			return
		}
		inside, err := filepath.Rel(dir, got)
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(inside), got)
		require.FileExists(t, got)
	})
}
