package transformer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"runtime/debug"
	"testing"
	"testing/iotest"

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

// TestVersionOf: programs with this module as a dependency have its version, the program of the module has its own, and
// one that is built in a checkout has the revision, too, and whether files were changed.
func TestVersionOf(t *testing.T) {
	const path = "github.com/pilotfish-ai/pilotfish"
	build := func(main string, deps []string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Path: path, Version: main}}
		for i := 0; i < len(deps); i += 2 {
			b.Deps = append(b.Deps, &debug.Module{Path: deps[i], Version: deps[i+1]})
		}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	assert.Equal(t, "v1.2.3", buildVersion(build("v1.2.3", []string{"example.com/other", "v9.0.0"}, "GOARCH", "arm64")))
	assert.Equal(t, "v0.4.0", buildVersion(build("v7.0.0", []string{"example.com/other", "v9.0.0", path, "v0.4.0"},
		"vcs.revision", "of the other program")))
	checkout := func(revision, modified string) string {
		return buildVersion(build("(devel)", nil, "vcs", "git", "vcs.revision", revision, "vcs.modified", modified))
	}
	assert.Contains(t, checkout("abc", "false"), "(devel) abc")
	assert.NotEqual(t, checkout("abc", "false"), checkout("abd", "false"))
	assert.NotEqual(t, checkout("abc", "false"), checkout("abc", "true"))
}

// TestReadSaved: a header is read back as it was written. One of another engine or version is refused by name, and so
// is a damaged one; an error of the reader is passed on.
func TestReadSaved(t *testing.T) {
	own := Saved{Model: "m", Program: "p", Device: "d", Type: "t"}
	read := func(b []byte) (Saved, []int32, error) { return ReadSaved(bytes.NewReader(b), own, 6, 10) }
	head, err := own.Head([]int32{1, 9}, 1)
	require.NoError(t, err)
	h, text, err := read(append(bytes.Clone(head), 1, 2, 3))
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 9}, text)
	assert.Equal(t, Saved{Model: "m", Program: "p", Device: "d", Type: "t", Tokens: 2, Cached: 1}, h)
	for what, other := range map[string]Saved{
		"file of the model":       {Model: "x", Program: "p", Device: "d", Type: "t"},
		"version of the program":  {Model: "m", Program: "x", Device: "d", Type: "t"},
		"device":                  {Model: "m", Program: "p", Device: "x", Type: "t"},
		"type of keys and values": {Model: "m", Program: "p", Device: "d", Type: "x"},
	} {
		t.Run("another "+what, func(t *testing.T) {
			b, err := other.Head([]int32{1}, 1)
			require.NoError(t, err)
			_, _, err = read(b)
			assert.ErrorIs(t, err, ErrOtherSaved)
			assert.ErrorContains(t, err, "the "+what+` was "x"`)
		})
	}
	edited := func(at int, to byte) []byte {
		b := bytes.Clone(head)
		b[at] = to
		return b
	}
	_, _, err = read(edited(7, 2))
	assert.ErrorIs(t, err, ErrOtherSaved)
	assert.ErrorContains(t, err, "version 2 of the format, this program has version 1")
	for want, b := range map[string][]byte{
		"they do not begin as such a file does": edited(0, 'p'), "they end too early": head[:len(head)-1],
		"a header of 65":                         edited(10, 1),
		"token 1 of the text is 10: ids of this": edited(len(head)-4, 10),
		"the header: invalid character 'p'":      edited(12, 'p'),
	} {
		_, _, err := read(b)
		assert.ErrorIs(t, err, ErrNotSaved, want)
		assert.ErrorContains(t, err, want)
	}
	_, _, err = ReadSaved(iotest.ErrReader(io.ErrClosedPipe), own, 6, 10)
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	assert.NotErrorIs(t, err, ErrNotSaved)
}
