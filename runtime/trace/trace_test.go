package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// settingsOf returns the settings of a small set.
func settingsOf(prompts, shard, width int, labels ...string) Settings {
	return Settings{
		Tap: "final-norm", Width: width, Small: Model{Fingerprint: "a", Name: "small"}, Large: Model{Fingerprint: "b"},
		Data: "c", Prompts: prompts, Reference: "given", MaxTokens: 8, Labels: labels, ShardPrompts: shard,
	}
}

// randomText returns a text with up to 5 positions.
func randomText(t *testing.T, r *rand.Rand, prompt int, s *Settings) Text {
	x := Text{Prompt: Prompt{
		Tokens: r.IntN(300), Cut: r.IntN(2) == 0, Graded: r.IntN(2) == 0, Cloud: r.IntN(9), Rollouts: r.IntN(9),
		RolloutTokens: r.IntN(9),
	}}
	x.Right = x.Graded && r.IntN(2) == 0
	n := r.IntN(6)
	if x.LeftOut = n == 0 && r.IntN(2) == 0; n == 0 {
		return x
	}
	for i := range n {
		p := Position{
			Prompt: int32(prompt), Pos: int32(x.Tokens + i), Reference: r.Int32(), Small: r.Int32(), Large: r.Int32(),
			Margin: r.Float32(), Entropy: 9 * r.Float32(), SmallLogProb: -r.Float32(), LargeLogProb: -r.Float32(),
			ReferenceSmall: -99 * r.Float32(), ReferenceLarge: -99 * r.Float32(),
		}
		for rule := range s.Labels {
			p.Labels[rule] = Verdict(r.IntN(3))
		}
		hidden := make([]float32, s.Width)
		for j := range hidden {
			hidden[j] = float32(r.NormFloat64())
		}
		var err error
		x.Hidden, err = AppendHalves(x.Hidden, hidden)
		require.NoError(t, err)
		x.Positions = append(x.Positions, p)
	}
	return x
}

// randomTexts returns a text for each prompt of the set.
func randomTexts(t *testing.T, seed uint64, s *Settings) (all []Text) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range s.Prompts {
		all = append(all, randomText(t, r, i, s))
	}
	return all
}

// fill writes the missing shards of a set.
func fill(t *testing.T, dir string, s Settings, texts []Text) {
	w, err := Create(dir, s)
	require.NoError(t, err)
	defer w.Close()
	for i := range s.Shards() {
		if from, to := s.ShardRange(i); !w.Done(i) {
			require.NoError(t, w.Write(i, texts[from:to]))
			assert.True(t, w.Done(i))
		}
	}
}

// TestRoundTrip: a set is read as it was written, for all shapes.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(60) {
		s := settingsOf(1+r.IntN(9), 1+r.IntN(5), 1+r.IntN(70), strings.Split("stuvwxyz", "")[:r.IntN(maxRules+1)]...)
		texts := randomTexts(t, seed, &s)
		dir := filepath.Join(held.TempDir(t), "new", "folder")
		fill(t, dir, s, texts)
		set, err := Open(dir)
		require.NoError(t, err)
		same(t, set, &s, texts)
		size := 0
		for name, text := range filesOf(t, dir) {
			if strings.HasSuffix(name, ".trace") {
				size += len(text)
			}
		}
		require.EqualValues(t, size, set.Bytes())
		require.NoError(t, set.Close())
	}
}

func same(t *testing.T, set *Set, s *Settings, texts []Text) {
	require.Equal(t, len(texts), set.Prompts())
	require.Equal(t, s.Width, set.Width())
	require.Equal(t, *s, normal(t, set.Settings(), s))
	n := 0
	hidden := make([]float32, s.Width)
	for p, x := range texts {
		about, from, to := set.Prompt(p)
		require.Equal(t, x.Prompt, about)
		require.Equal(t, []int{n, n + len(x.Positions)}, []int{from, to})
		for i, want := range x.Positions {
			require.Equal(t, want, set.At(from+i))
			set.Hidden(hidden, from+i)
			for j, h := range x.Hidden[i*s.Width : (i+1)*s.Width] {
				require.Equal(t, gguf.F16ToF32(h), hidden[j])
			}
		}
		n = to
	}
	require.Equal(t, n, set.Len())
	require.Panics(t, func() { set.At(n) })
	require.Panics(t, func() { set.At(-1) })
	for _, p := range []int{-1, len(texts)} {
		require.PanicsWithValue(t, fmt.Sprintf("trace: prompt %d of %d", p, len(texts)), func() { set.Prompt(p) })
	}
	if n > 0 {
		require.Panics(t, func() { set.Hidden(make([]float32, s.Width+1), 0) })
	}
}

// TestLayout parses a file by the package comment alone.
func TestLayout(t *testing.T) {
	s := settingsOf(2, 2, 3, "rule")
	nan := float32(math.NaN())
	texts := []Text{
		{
			Prompt: Prompt{Tokens: 7, Cut: true, Graded: true, Right: true, Cloud: 1, Rollouts: 2, RolloutTokens: 3},
			Positions: []Position{{
				Reference: 4, Small: 5, Large: 6, Margin: 0.5, Entropy: 1.5, SmallLogProb: -1, LargeLogProb: -2,
				ReferenceSmall: -3, ReferenceLarge: nan, Labels: [maxRules]Verdict{Escalate},
			}},
			Hidden: []uint16{0x3c00, 0x4000, 0xc000},
		},
		{Prompt: Prompt{Tokens: 9, LeftOut: true}},
	}
	dir := held.TempDir(t)
	fill(t, dir, s, texts)
	b, err := os.ReadFile(filepath.Join(dir, "shard-00000.trace"))
	require.NoError(t, err)
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	require.NoError(t, err)
	assert.Equal(t, "PFTRACE\x00", string(b[:8]))
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	for i, want := range []uint32{1, 0, 0, 2, 1, 3, 1, 1, 0, 0, 0, 0, 0, 0} {
		assert.Equal(t, want, u32(8+4*i), "header %d", i)
	}
	sum := sha256.Sum256(manifest)
	assert.Equal(t, sum[:], b[64:96])
	for i, want := range []uint32{7, 1, 5, 1, 2, 3, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0} {
		assert.Equal(t, want, u32(128+4*i), "prompt %d", i)
	}
	for i, want := range []uint32{4, 5, 6} {
		assert.Equal(t, want, u32(192+64*i))
	}
	for i, want := range []float32{0.5, 1.5, -1, -2, -3} {
		assert.Equal(t, want, math.Float32frombits(u32(384+64*i)))
	}
	assert.Equal(t, math.Float32bits(nan), u32(384+64*5))
	assert.Equal(t, []byte{2, 0}, b[768:770])
	assert.Equal(t, []byte{0, 0x3c, 0, 0x40, 0, 0xc0, 0}, b[832:839])
	sum = sha256.Sum256(b[:896])
	assert.Equal(t, sum[:], b[896:])
}

func TestHalves(t *testing.T) {
	got, err := AppendHalves(nil, []float32{1, 1e9, -1e9, 65504, 65535, 0})
	require.NoError(t, err)
	assert.Equal(t, []uint16{0x3c00, 0x7bff, 0xfbff, 0x7bff, 0x7bff, 0}, got)
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		_, err := AppendHalves(nil, []float32{1, float32(x)})
		assert.ErrorContains(t, err, "element 1")
	}
}

// TestTextRefused: an inconsistent text is not written.
func TestTextRefused(t *testing.T) {
	s := settingsOf(1, 1, 2, "x")
	good := func() Text {
		return Text{Positions: []Position{{ReferenceLarge: float32(math.NaN())}}, Hidden: []uint16{0, 0}}
	}
	w, err := Create(held.TempDir(t), s)
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Write(0, []Text{good()}))
	assert.ErrorContains(t, w.Write(0, nil), "has 1 prompts, not 0")
	for want, spoil := range map[string]func(x *Text){
		"1 halves":           func(x *Text) { x.Hidden = x.Hidden[1:] },
		"left out":           func(x *Text) { x.LeftOut = true },
		"without having":     func(x *Text) { x.Right = true },
		"the count -1":       func(x *Text) { x.Tokens = -1 },
		"the count 21474836": func(x *Text) { x.RolloutTokens = 1 << 31 },
		"small is -1":        func(x *Text) { x.Positions[0].Small = -1 },
		"margin is 1.5":      func(x *Text) { x.Positions[0].Margin = 1.5 },
		"margin is NaN":      func(x *Text) { x.Positions[0].Margin = float32(math.NaN()) },
		"entropy is -1":      func(x *Text) { x.Positions[0].Entropy = -1 },
		"entropy is 1":       func(x *Text) { x.Positions[0].Entropy = 101 },
		"small_logprob":      func(x *Text) { x.Positions[0].SmallLogProb = float32(math.NaN()) },
		"large_logprob is 1": func(x *Text) { x.Positions[0].LargeLogProb = 1 },
		"reference_small":    func(x *Text) { x.Positions[0].ReferenceSmall = float32(math.Inf(-1)) },
		"label 0 is 4":       func(x *Text) { x.Positions[0].Labels[0] = 4 },
	} {
		x := good()
		spoil(&x)
		assert.ErrorContains(t, w.Write(0, []Text{x}), want)
	}
	assert.Len(t, filesOf(t, w.dir), 3, "manifest, lock and shard: a failed write leaves nothing")
	set, err := Open(w.dir)
	require.NoError(t, err)
	defer set.Close()
	assert.Equal(t, 1, set.Len(), "the valid text is still there")
}

// TestWriteFails: a shard that cannot be written, flushed or renamed does not count as done, nothing is left of it, and
// it can be written later. The system refuses to flush its null device.
func TestWriteFails(t *testing.T) {
	s := settingsOf(1, 1, 2)
	dir := held.TempDir(t)
	w, err := Create(dir, s)
	require.NoError(t, err)
	defer w.Close()
	fails := func(texts []Text) {
		t.Helper()
		assert.Error(t, w.Write(0, texts))
		assert.False(t, w.Done(0))
		_, err := os.Lstat(shardPath(dir, 0) + ".part")
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	fails(nil)
	if runtime.GOOS == "linux" {
		require.NoError(t, os.Symlink(os.DevNull, shardPath(dir, 0)+".part"))
		fails([]Text{{}})
		assert.NoFileExists(t, shardPath(dir, 0))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(shardPath(dir, 0), "x"), 0o755))
	fails([]Text{{}})
	require.NoError(t, os.RemoveAll(shardPath(dir, 0)))
	require.NoError(t, w.Write(0, []Text{{}}))
	assert.True(t, w.Done(0))
}

// TestLimitsThemselves: values at the end of what a model can give are written and read.
func TestLimitsThemselves(t *testing.T) {
	s := settingsOf(1, 1, 1, "x", "y", "z", "w")
	nan := float32(math.NaN())
	all := []Position{
		{Reference: math.MaxInt32, Small: math.MaxInt32, Large: math.MaxInt32, Margin: 1, Entropy: 100},
		{SmallLogProb: 9e-4, LargeLogProb: 9e-4, ReferenceSmall: 9e-4, ReferenceLarge: 9e-4},
		{SmallLogProb: -math.MaxFloat32, LargeLogProb: nan, ReferenceSmall: -math.MaxFloat32, ReferenceLarge: nan},
		{Labels: [maxRules]Verdict{Unknown, Keep, Escalate, Spoil}},
	}
	most := Prompt{Tokens: math.MaxInt32, Cloud: math.MaxInt32, Rollouts: math.MaxInt32, RolloutTokens: math.MaxInt32}
	hidden := []uint16{0x7bff, 0xfbff, 0x8000, 1} // the largest finite ones, -0, the smallest
	b := encoded(t, &s, 0, []Text{{Prompt: most, Positions: all, Hidden: hidden}})
	got, err := parse(b)
	require.NoError(t, err)
	assert.Equal(t, most, got.promptAt(0))
	for i, want := range all {
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(got.at(i)), "NaN is not equal to itself")
		assert.Equal(t, order.AppendUint16(nil, hidden[i]), got.halves(i))
	}
}

// TestManifestForm: the names in a manifest, by which sets of earlier programs are read and compared.
func TestManifestForm(t *testing.T) {
	all := Settings{
		Tap: "t", Width: 1, Small: Model{Fingerprint: "f", Name: "n", Context: 2, Compute: "c"},
		Large: Model{Fingerprint: "g", Name: "m", Context: 3, Compute: "d"}, Data: "h", Task: "k", Shots: 4, Prompts: 5,
		Raw: true, Reference: "r", MaxTokens: 6, Sampling: &Sampling{Temperature: 0.5, Seed: 1<<64 - 1},
		Routing: &Routing{Router: "o", Threshold: 0.25}, Labels: []string{"a", "b"}, Sentence: 7, Collapse: true,
		ShardPrompts: 8,
	}
	for want, s := range map[string]Settings{
		`{"format":"pilotfish-trace","version":1,"tap":"t","width":1,
		"small":{"fingerprint":"f","name":"n","context":2,"compute":"c"},
		"large":{"fingerprint":"g","name":"m","context":3,"compute":"d"},"data":"h","task":"k","shots":4,"prompts":5,
		"raw":true,"reference":"r","max_tokens":6,"sampling":{"temperature":0.5,"seed":18446744073709551615},
		"routing":{"router":"o","threshold":0.25},"labels":["a","b"],"sentence":7,"collapses":true,
		"shard_prompts":8}`: all,
		`{"format":"pilotfish-trace","version":1,"tap":"","width":1,"small":{},"large":{},"data":"","prompts":1,
		"reference":"","max_tokens":1,"labels":[],"shard_prompts":1}`: {
			Width: 1, Prompts: 1, MaxTokens: 1, Labels: []string{}, ShardPrompts: 1,
		},
	} {
		got, err := s.encode()
		require.NoError(t, err)
		assert.JSONEq(t, want, string(got))
		read, err := parseManifest([]byte(want))
		require.NoError(t, err)
		assert.Equal(t, s, *read)
	}
}

// TestManifestSize: a manifest of 1 MiB is read.
func TestManifestSize(t *testing.T) {
	s := settingsOf(1, 1, 1)
	b, err := s.encode()
	require.NoError(t, err)
	dir := t.TempDir()
	for more, want := range []error{nil, ErrMagic} {
		write(t, dir, manifestName, string(b)+strings.Repeat(" ", maxManifest+more-len(b)))
		_, _, err = readManifest(dir)
		assert.ErrorIs(t, err, want)
	}
}

// encoded returns the bytes of a shard.
func encoded(t testing.TB, s *Settings, shard int, texts []Text) []byte {
	var b bytes.Buffer
	require.NoError(t, encode(&b, s, [32]byte{1}, shard, texts))
	return b.Bytes()
}

// sealed sets the right checksum at the end.
func sealed(b []byte) []byte {
	b = slices.Clone(b)
	if n := len(b) - sumBytes; n >= 0 {
		sum := sha256.Sum256(b[:n])
		copy(b[n:], sum[:])
	}
	return b
}

// TestDamage: every changed byte of a shard is detected, and so is a truncated or longer shard.
func TestDamage(t *testing.T) {
	s := settingsOf(3, 3, 5, "x", "y")
	b := encoded(t, &s, 0, randomTexts(t, 4, &s))
	_, err := parse(b)
	require.NoError(t, err)
	for i := range b {
		b[i] ^= 1
		_, err := parse(b)
		require.Error(t, err, "byte %d", i)
		b[i] ^= 1
	}
	for n := range b {
		_, err := parse(b[:n])
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
		if n >= headerBytes {
			require.ErrorContains(t, err, fmt.Sprintf("%d bytes of %d", n, len(b)))
		}
	}
	_, err = parse(append(b, 0))
	require.ErrorIs(t, err, ErrValue)
}

// TestHostile: values that this program never writes are refused by name.
func TestHostile(t *testing.T) {
	s := settingsOf(2, 2, 3, "x")
	x := Text{Positions: make([]Position, 2), Hidden: make([]uint16, 6)}
	b := encoded(t, &s, 0, []Text{x, x})
	for _, c := range []struct {
		at    int
		value uint32
		field string
		want  error
	}{
		{0, 0, "magic", ErrMagic}, {8, 2, "version", ErrVersion}, {36, 2, "type", ErrValue}, {36, 0, "type", ErrValue},
		{20, 0, "prompts", ErrValue}, {20, math.MaxUint32, "prompts", ErrValue},
		{24, 1 << 30, "size", io.ErrUnexpectedEOF}, {24, math.MaxUint32, "size", io.ErrUnexpectedEOF},
		{28, 0, "width", ErrValue}, {28, 1 << 17, "width", ErrValue},
		{28, 1 << 16, "size", io.ErrUnexpectedEOF}, {32, 9, "rules", ErrValue}, {32, 0, "size", ErrValue},
		{128, math.MaxUint32, "prompt[0,0]", ErrValue}, {132, 1, "prompt: 3 positions", ErrValue},
		{132, 3, "prompt: 5 positions", ErrValue}, {132, 5, "prompt: 5 positions", ErrValue},
		{192, math.MaxUint32, "position 0: reference is -1", ErrValue}, {384, math.Float32bits(2), "margin", ErrValue},
		{768, 0x0400, "position 1: label 0 is 4", ErrValue}, {832, 0x7c000000, "hidden[0,1]", ErrValue},
		{840, 0xfe00, "hidden[1,1]", ErrValue},
	} {
		bad := slices.Clone(b)
		binary.LittleEndian.PutUint32(bad[c.at:], c.value)
		_, err := parse(sealed(bad))
		assert.ErrorIs(t, err, c.want, "%d at %d", c.value, c.at)
		assert.ErrorContains(t, err, c.field)
	}
}

func FuzzParse(f *testing.F) {
	s := settingsOf(2, 2, 2, "x")
	x := Text{Positions: make([]Position, 2), Hidden: make([]uint16, 4)}
	f.Add(encoded(f, &s, 0, []Text{x, x}))
	f.Add(encoded(f, &s, 0, []Text{{}, {}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parse(sealed(b))
		if err != nil {
			return
		}
		texts := make([]Text, p.prompts)
		for i := range texts {
			texts[i].Prompt = p.promptAt(i)
			for n := p.start[i]; n < p.start[i+1]; n++ {
				require.Equal(t, i, p.promptOf(n))
				texts[i].Positions = append(texts[i].Positions, p.at(n))
				for h := p.halves(n); len(h) > 0; h = h[2:] {
					texts[i].Hidden = append(texts[i].Hidden, order.Uint16(h))
				}
			}
		}
		wrong := func(x Text) bool { return x.check(p.width) != nil }
		if p.shard != 0 || p.first != 0 || slices.ContainsFunc(texts, wrong) {
			return // of another place in its set, or with contradictory flags
		}
		s := settingsOf(p.prompts, p.prompts, p.width, slices.Repeat([]string{"x"}, p.rules)...)
		again, err := parse(encoded(t, &s, 0, texts))
		require.NoError(t, err)
		require.Equal(t, p.layout, again.layout)
	})
}

func FuzzManifest(f *testing.F) {
	s := settingsOf(5, 2, 3, "x")
	b, err := s.encode()
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseManifest(b)
		if err != nil {
			return
		}
		require.Positive(t, s.Shards())
		again, err := s.encode()
		require.NoError(t, err)
		got, err := parseManifest(again)
		require.NoError(t, err)
		require.Empty(t, differs(*s, *got, ""))
	})
}

// TestOpenRefused: each error names the file and what is wrong with it.
func TestOpenRefused(t *testing.T) {
	s := settingsOf(3, 2, 4, "x")
	texts := randomTexts(t, 7, &s)
	other := s
	other.Data = "another"
	for _, c := range []struct {
		name  string
		spoil func(dir string)
		want  error
		says  string
	}{
		{"no manifest", func(dir string) { os.Remove(filepath.Join(dir, manifestName)) }, os.ErrNotExist, manifestName},
		{"no JSON", func(dir string) { write(t, dir, manifestName, "{") },
			io.ErrUnexpectedEOF, manifestName + ": JSON"},
		{"not ours", func(dir string) { write(t, dir, manifestName, "{}") }, ErrMagic, manifestName + ": format"},
		{"newer", func(dir string) { edit(t, dir, `"version": 1`, `"version": 2`) },
			ErrVersion, manifestName + ": version"},
		{"no width", func(dir string) { edit(t, dir, `"width": 4`, `"width": 0`) }, ErrValue, manifestName + ": width"},
		{"many", func(dir string) { edit(t, dir, `"prompts": 3`, `"prompts": 2000000000`) },
			ErrIncomplete, "shard 2 of"},
		{"edited", func(dir string) { edit(t, dir, `"data": "c"`, `"data": "d"`) },
			ErrManifest, "00000.trace: manifest"},
		{"long", func(dir string) { write(t, dir, manifestName, strings.Repeat(" ", 2<<20)) }, ErrMagic, manifestName},
		{"missing", func(dir string) { os.Remove(shardPath(dir, 1)) }, ErrIncomplete, "shard 1 of 2"},
		{"empty", func(dir string) { write(t, dir, "shard-00001.trace", "") },
			io.ErrUnexpectedEOF, "00001.trace: header"},
		{"folder", func(dir string) {
			os.Remove(shardPath(dir, 1))
			os.Mkdir(shardPath(dir, 1), 0o755)
		}, nil, "not a regular file"},
		{"device", func(dir string) {
			os.Remove(shardPath(dir, 1))
			os.Symlink(os.DevNull, shardPath(dir, 1))
		}, nil, "not a regular file"},
		{"swapped", func(dir string) {
			os.Rename(shardPath(dir, 1), shardPath(dir, 0))
			write(t, dir, "shard-00001.trace", "x")
		},
			ErrManifest, "00000.trace: shard: 1 instead of 0"},
		{"misplaced", func(dir string) {
			b, err := os.ReadFile(shardPath(dir, 1))
			require.NoError(t, err)
			b[16]++
			write(t, dir, "shard-00001.trace", string(sealed(b)))
		}, ErrManifest, "00001.trace: first: 3 instead of 2"},
		{"wide", func(dir string) {
			_, manifest, err := readManifest(dir)
			require.NoError(t, err)
			wide := s
			wide.Width++
			var b bytes.Buffer
			require.NoError(t, encode(&b, &wide, manifest, 1, randomTexts(t, 7, &wide)[2:]))
			write(t, dir, "shard-00001.trace", b.String())
		}, ErrManifest, "00001.trace: width: 5 instead of 4"},
		{"more labels", func(dir string) {
			_, manifest, err := readManifest(dir)
			require.NoError(t, err)
			more := s
			more.Labels = []string{"x", "y"}
			var b bytes.Buffer
			require.NoError(t, encode(&b, &more, manifest, 1, randomTexts(t, 7, &more)[2:]))
			write(t, dir, "shard-00001.trace", b.String())
		}, ErrManifest, "00001.trace: rules: 2 instead of 1"},
		{"more prompts", func(dir string) {
			_, manifest, err := readManifest(dir)
			require.NoError(t, err)
			more := s
			more.Prompts++
			var b bytes.Buffer
			require.NoError(t, encode(&b, &more, manifest, 1, randomTexts(t, 7, &more)[2:]))
			write(t, dir, "shard-00001.trace", b.String())
		}, ErrManifest, "00001.trace: prompts: 2 instead of 1"},
		{"foreign", func(dir string) {
			there := held.TempDir(t)
			fill(t, there, other, texts)
			require.NoError(t, os.Rename(shardPath(there, 1), shardPath(dir, 1)))
		}, ErrManifest, "00001.trace: manifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := held.TempDir(t)
			fill(t, dir, s, texts)
			c.spoil(dir)
			_, err := Open(dir)
			require.Error(t, err)
			if c.want != nil {
				assert.ErrorIs(t, err, c.want)
			}
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, dir)
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// edit changes the manifest.
func edit(t *testing.T, dir, old, new string) {
	b, err := os.ReadFile(filepath.Join(dir, manifestName))
	require.NoError(t, err)
	require.Contains(t, string(b), old)
	write(t, dir, manifestName, strings.Replace(string(b), old, new, 1))
}

// filesOf returns the files of a folder by name.
func filesOf(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		all[filepath.Base(name)] = string(b)
	}
	return all
}

// TestResume: a set that was interrupted after any shard is completed to the same bytes; an incomplete shard of a
// killed process is replaced.
func TestResume(t *testing.T) {
	s := settingsOf(7, 2, 3, "x")
	texts := randomTexts(t, 8, &s)
	whole := held.TempDir(t)
	fill(t, whole, s, texts)
	want := filesOf(t, whole)
	assert.Len(t, want, 5)
	for missing := range 1 << s.Shards() {
		dir := held.TempDir(t)
		w, err := Create(dir, s)
		require.NoError(t, err)
		for i := range s.Shards() {
			if from, to := s.ShardRange(i); missing>>i&1 == 0 {
				require.NoError(t, w.Write(i, texts[from:to]))
			} else {
				write(t, dir, filepath.Base(shardPath(dir, i))+".part", "half of a")
			}
		}
		w.Close()
		w, err = Create(dir, s)
		require.NoError(t, err)
		for i := range s.Shards() {
			assert.Equal(t, missing>>i&1 == 0, w.Done(i))
		}
		w.Close()
		fill(t, dir, s, texts)
		require.Equal(t, want, filesOf(t, dir))
	}
}

// TestCreateRefused: continuing with other settings is an error that names them, and nothing is changed.
func TestCreateRefused(t *testing.T) {
	s := settingsOf(2, 1, 3, "x")
	s.Sampling = &Sampling{Temperature: 1}
	dir := held.TempDir(t)
	fill(t, dir, s, randomTexts(t, 9, &s))
	before := filesOf(t, dir)
	for want, change := range map[string]func(s *Settings){
		`small.name was "small" and is now "other"`:   func(s *Settings) { s.Small.Name = "other" },
		`data was "c" and is now "\"ddd`:              func(s *Settings) { s.Data = strings.Repeat("d", 1000) },
		`prompts was 2 and is now 3`:                  func(s *Settings) { s.Prompts = 3 },
		`labels was ["x"] and is now ["x","y"]`:       func(s *Settings) { s.Labels = []string{"x", "y"} },
		`sampling.temperature was 1 and is now 2`:     func(s *Settings) { s.Sampling = &Sampling{Temperature: 2} },
		`sampling was {"temperature":1`:               func(s *Settings) { s.Sampling = nil },
		`routing was null and is now {"router":"abc"`: func(s *Settings) { s.Routing = &Routing{Router: "abc"} },
	} {
		other := s
		change(&other)
		_, err := Create(dir, other)
		assert.ErrorContains(t, err, dir+" holds traces of other settings: "+want)
		assert.Less(t, len(err.Error()), 500, "long settings are cut")
	}
	write(t, dir, manifestName, before[manifestName]+" ")
	_, err := Create(dir, s)
	assert.ErrorContains(t, err, "manifest.json has been changed")
	write(t, dir, manifestName, before[manifestName])
	assert.Equal(t, before, filesOf(t, dir))
	_, err = Create(held.TempDir(t), Settings{})
	assert.ErrorIs(t, err, ErrValue)
	other := s
	other.Sampling = &Sampling{Temperature: math.NaN()}
	_, err = Create(held.TempDir(t), other)
	assert.ErrorContains(t, err, "NaN", "it is no JSON")

	require.NoError(t, os.WriteFile(shardPath(dir, 1), []byte(before["shard-00001.trace"][1:]), 0o644))
	_, err = Create(dir, s)
	assert.ErrorIs(t, err, ErrMagic)
	assert.ErrorContains(t, err, shardPath(dir, 1))
}

// TestCreateAgain: settings may change as long as there is no shard; shards without a manifest are refused.
func TestCreateAgain(t *testing.T) {
	dir, s := held.TempDir(t), settingsOf(2, 1, 3, "x")
	w, err := Create(dir, s)
	require.NoError(t, err)
	w.Close()
	s.Raw = true
	write(t, dir, "shard-00000.trace.part", "of an interrupted write")
	write(t, dir, "notes.trace", "of the user")
	texts := randomTexts(t, 3, &s)
	fill(t, dir, s, texts)
	set, err := Open(dir)
	require.NoError(t, err)
	assert.True(t, set.Settings().Raw)
	hash := set.Hash()
	for range 2 {
		require.NoError(t, set.Close(), "also a second time")
	}
	assert.Equal(t, hash, set.Hash())
	assert.True(t, set.Settings().Raw)
	require.NoError(t, os.Remove(filepath.Join(dir, manifestName)))
	before := filesOf(t, dir)
	_, err = Create(dir, s)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, before, filesOf(t, dir))
}

// TestOneWriter: a folder has only one writer.
func TestOneWriter(t *testing.T) {
	dir, s := held.TempDir(t), settingsOf(1, 1, 1)
	w, err := Create(dir, s)
	require.NoError(t, err)
	_, err = Create(dir, s)
	assert.ErrorContains(t, err, "another process is writing traces to "+dir)
	w.Close()
	w, err = Create(dir, s)
	require.NoError(t, err)
	w.Close()
}

// TestHash: the hash of a set depends on its content.
func TestHash(t *testing.T) {
	s := settingsOf(3, 2, 2)
	hash := func(s Settings, seed uint64) string {
		dir := held.TempDir(t)
		fill(t, dir, s, randomTexts(t, seed, &s))
		set, err := Open(dir)
		require.NoError(t, err)
		defer set.Close()
		return set.Hash()
	}
	other := s
	other.MaxTokens = 5
	assert.Equal(t, hash(s, 1), hash(s, 1))
	assert.NotEqual(t, hash(s, 1), hash(s, 2))
	assert.NotEqual(t, hash(s, 1), hash(other, 1))
	assert.Len(t, hash(s, 1), 64)
}

func TestSettings(t *testing.T) {
	s := settingsOf(7, 3, 2, "a", "b")
	assert.Equal(t, 3, s.Shards())
	var got []string
	for i := range 3 {
		got = append(got, fmt.Sprint(s.ShardRange(i)))
	}
	assert.Equal(t, []string{"0 3", "3 6", "6 7"}, got)
	assert.Equal(t, []int{0, 1, -1}, []int{s.Rule("a"), s.Rule("b"), s.Rule("c")})
	for n, want := range map[int]error{0: nil, maxRules: nil, maxRules + 1: ErrValue} {
		other := s
		other.Labels = make([]string, n)
		assert.ErrorIs(t, other.validate(), want, n)
	}
	for i, c := range []struct {
		set         func(s *Settings, n int)
		least, most int
	}{
		{func(s *Settings, n int) { s.MaxTokens = n }, 1, math.MaxInt32},
		{func(s *Settings, n int) { s.Width = n }, 1, maxWidth},
		{func(s *Settings, n int) { s.Prompts = n }, 1, math.MaxInt32},
		{func(s *Settings, n int) { s.ShardPrompts = n }, 1, maxPrompts},
	} {
		for n, want := range map[int]error{c.least - 1: ErrValue, c.least: nil, c.most: nil, c.most + 1: ErrValue} {
			other := s
			c.set(&other, n)
			assert.ErrorIs(t, other.validate(), want, "%d: %d", i, n)
		}
	}
}

// normal returns got with the labels of s if both are empty: a file does not distinguish an empty list from nil.
func normal(t *testing.T, got Settings, s *Settings) Settings {
	if len(got.Labels) == 0 {
		require.Empty(t, s.Labels)
		got.Labels = s.Labels
	}
	return got
}

// TestOneNaN: sets of the same figures have the same bytes, whichever NaN stands for a missing one.
func TestOneNaN(t *testing.T) {
	usual, other := math.Float32frombits(0x7fc00000), math.Float32frombits(0xffc01234)
	a, b := new(Position), new(Position)
	a.LargeLogProb, b.LargeLogProb = usual, other
	for column := range 9 {
		assert.Equal(t, a.word(column), b.word(column), column)
	}
}
