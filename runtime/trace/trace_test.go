package trace

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// settingsOf returns the settings of a small set.
func settingsOf(prompts, width int, labels ...string) Settings {
	return Settings{
		Tap: "final-norm", Width: width, Small: Model{Fingerprint: "a", Name: "small"}, Large: Model{Fingerprint: "b"},
		Data: "c", Prompts: prompts, Reference: "given", MaxTokens: 8, Labels: append([]string{}, labels...),
	}
}

// randomTexts returns a text with up to 5 positions for each prompt of the set.
func randomTexts(t testing.TB, seed uint64, s *Settings) (all []Text) {
	r := rand.New(rand.NewPCG(seed, 1))
	for prompt := range s.Prompts {
		x := Text{Prompt: Prompt{
			Tokens: r.IntN(300), Cut: r.IntN(2) == 0, Graded: r.IntN(2) == 0, Cloud: r.IntN(9), Rollouts: r.IntN(9),
			RolloutTokens: r.IntN(9),
		}}
		x.Right = x.Graded && r.IntN(2) == 0
		n := r.IntN(6)
		x.LeftOut = n == 0 && r.IntN(2) == 0
		for i := range n {
			p := Position{
				Prompt: int32(prompt), Pos: int32(x.Tokens + i), Reference: r.Int32(), Small: r.Int32(),
				Large:  r.Int32(),
				Margin: r.Float32(), Entropy: 9 * r.Float32(), SmallLogProb: -r.Float32(), LargeLogProb: -r.Float32(),
				ReferenceSmall: -99 * r.Float32(), ReferenceLarge: -99 * r.Float32(),
			}
			for rule := range s.Labels {
				p.Labels[rule] = Verdict(r.IntN(4))
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
		all = append(all, x)
	}
	return all
}

// fill writes the missing prompts of a set and returns the bytes of the file.
func fill(t testing.TB, path string, s Settings, texts []Text) []byte {
	w, err := Create(path, s)
	require.NoError(t, err)
	for n := w.Prompts(); n < len(texts); n++ {
		require.NoError(t, w.Append(texts[n]))
		assert.Equal(t, n+1, w.Prompts())
	}
	require.NoError(t, w.Close())
	assert.NoFileExists(t, path+".lock")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// TestRoundTrip: a set is read as it was written, for all shapes.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(60) {
		s := settingsOf(1+r.IntN(9), 1+r.IntN(70), strings.Split("stuvwxyz", "")[:r.IntN(maxRules+1)]...)
		texts := randomTexts(t, seed, &s)
		path := filepath.Join(held.TempDir(t), "traces")
		b := fill(t, path, s, texts)
		set, err := Open(path)
		require.NoError(t, err)
		same(t, set, &s, texts)
		require.EqualValues(t, len(b), set.Bytes())
		hash := set.Hash()
		for range 2 {
			require.NoError(t, set.Close(), "also a second time")
		}
		assert.Equal(t, hash, set.Hash())
		assert.Equal(t, s, set.Settings())
	}
}

func same(t *testing.T, set *Set, s *Settings, texts []Text) {
	require.Equal(t, len(texts), set.Prompts())
	require.Equal(t, s.Width, set.Width())
	require.Equal(t, *s, set.Settings())
	n := 0
	hidden := make([]float32, s.Width)
	for p, x := range texts {
		about, from, to := set.Prompt(p)
		require.Equal(t, x.Prompt, about)
		require.Equal(t, n, from, "of prompt %d", p)
		require.Equal(t, n+len(x.Positions), to, "of prompt %d", p)
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
	require.Panics(t, func() { set.Prompt(len(texts)) })
	if n > 0 {
		require.Panics(t, func() { set.Hidden(make([]float32, s.Width+1), 0) })
	}
}

// oneText is a text with all kinds of values, and its bytes after the package's comment.
func oneText() (Text, []byte) {
	nan := float32(math.NaN())
	x := Text{
		Prompt: Prompt{Tokens: 7, Cut: true, Graded: true, Right: true, Cloud: 1, Rollouts: 2, RolloutTokens: 3},
		Positions: []Position{{
			Pos: 7, Reference: 4, Small: 5, Large: 6, Margin: 0.5, Entropy: 1.5, SmallLogProb: -1, LargeLogProb: -2,
			ReferenceSmall: -3, ReferenceLarge: nan, Labels: [maxRules]Verdict{Escalate, Spoil},
		}},
		Hidden: []uint16{0x3c00, 0x4000, 0xc000},
	}
	var b []byte
	for _, v := range []uint32{7, 1, 5, 1, 2, 3, 0, 7, 4, 5, 6, 0x3f000000, 0x3fc00000, 0xbf800000, 0xc0000000,
		0xc0400000, math.Float32bits(nan), 0x0302, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return x, append(b, 0, 0x3c, 0, 0x40, 0, 0xc0)
}

// TestLayout: a file has the bytes that the package comment says.
func TestLayout(t *testing.T) {
	s := settingsOf(2, 3, "x", "y")
	x, want := oneText()
	got := fill(t, filepath.Join(held.TempDir(t), "t"), s, []Text{x, {Prompt: Prompt{Tokens: 9, LeftOut: true}}})
	line := `{"format":"pilotfish-trace","version":2,"tap":"final-norm","width":3,` +
		`"small":{"fingerprint":"a","name":"small"},"large":{"fingerprint":"b"},"data":"c","prompts":2,` +
		`"reference":"given","max_tokens":8,"labels":["x","y"]}` + "\n"
	second := append([]byte{9, 0, 0, 0, 0, 0, 0, 0, 2}, make([]byte, 15)...)
	sums := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(slices.Concat([]byte(line), want)))
	sums = binary.LittleEndian.AppendUint32(sums, crc32.ChecksumIEEE(slices.Concat([]byte(line), want, second)))
	assert.Equal(t, string(slices.Concat([]byte(line), want, sums[:4], second, sums[4:])), string(got))
	for _, bits := range []uint32{0xffc01234, 0x7f801234} {
		x.Positions[0].ReferenceLarge = math.Float32frombits(bits)
		b, err := x.encodeRecord(0, 3)
		require.NoError(t, err)
		assert.Equal(t, want, b, "any NaN has the same bytes")
	}
}

// TestLine: the names of all settings.
func TestLine(t *testing.T) {
	s := Settings{
		Tap: "t", Width: 1, Small: Model{Fingerprint: "f", Name: "n", Context: 2, Compute: "c"},
		Large: Model{Fingerprint: "g", Name: "m", Context: 3, Compute: "d"}, Data: "h", Task: "k", Shots: 4, Prompts: 5,
		Raw: true, Reference: "r", MaxTokens: 6, Sampling: &Sampling{Temperature: 0.5, Seed: 1<<64 - 1},
		Routing: &Routing{Router: "o", Threshold: 0.25}, Labels: []string{"a", "b"},
	}
	got, err := s.encodeHeader()
	require.NoError(t, err)
	assert.JSONEq(t, `{"format":"pilotfish-trace","version":2,"tap":"t","width":1,
		"small":{"fingerprint":"f","name":"n","context":2,"compute":"c"},
		"large":{"fingerprint":"g","name":"m","context":3,"compute":"d"},"data":"h","task":"k","shots":4,"prompts":5,
		"raw":true,"reference":"r","max_tokens":6,"sampling":{"temperature":0.5,"seed":18446744073709551615},
		"routing":{"router":"o","threshold":0.25},"labels":["a","b"]}`, string(got))
	read, err := parseSettings(got)
	require.NoError(t, err)
	assert.Equal(t, s, *read)
	for rule, want := range map[string]int{"a": 0, "b": 1, "c": -1} {
		assert.Equal(t, want, s.Rule(rule), rule)
	}
	s.Data = strings.Repeat("d", maxLine)
	_, err = s.encodeHeader()
	assert.ErrorIs(t, err, ErrValue, "a line that could not be read")
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

// TestTextRefused: what no model can give, or contradicts itself, is not written, and the file stays as it is. The
// reader applies the same checks.
func TestTextRefused(t *testing.T) {
	path := filepath.Join(held.TempDir(t), "t")
	good, _ := oneText()
	s := settingsOf(2, 3, "x", "y")
	w, err := Create(path, s)
	require.NoError(t, err)
	require.NoError(t, w.Append(good))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for want, spoil := range map[string]func(x *Text, p *Position){
		"token 7 of prompt 1": func(x *Text, p *Position) {
			x.Positions, x.Hidden = append(x.Positions, *p), append(x.Hidden, x.Hidden...)
		},
		"2 halves of hidden":        func(x *Text, p *Position) { x.Hidden = x.Hidden[1:] },
		"flags 7 with 1 pos":        func(x *Text, p *Position) { x.LeftOut = true },
		"contradictory":             func(x *Text, p *Position) { x.Graded = false },
		"field 0 is 4294967295":     func(x *Text, p *Position) { x.Tokens = -1 },
		"field 5 is 2147483648":     func(x *Text, p *Position) { x.RolloutTokens = 1 << 31 },
		"reference is -1":           func(x *Text, p *Position) { p.Reference = -1 },
		"small is -1":               func(x *Text, p *Position) { p.Small = -1 },
		"large is -1":               func(x *Text, p *Position) { p.Large = -1 },
		"margin is 1.5":             func(x *Text, p *Position) { p.Margin = 1.5 },
		"margin is NaN":             func(x *Text, p *Position) { p.Margin = nan },
		"entropy is -1":             func(x *Text, p *Position) { p.Entropy = -1 },
		"entropy is 101":            func(x *Text, p *Position) { p.Entropy = 101 },
		"small_logprob is NaN":      func(x *Text, p *Position) { p.SmallLogProb = nan },
		"large_logprob is 1":        func(x *Text, p *Position) { p.LargeLogProb = 1 },
		"reference_small is -Inf":   func(x *Text, p *Position) { p.ReferenceSmall = -inf },
		"reference_large is 0.0011": func(x *Text, p *Position) { p.ReferenceLarge = 0.0011 },
		"label 7 is 4":              func(x *Text, p *Position) { p.Labels[7] = 4 },
		"hidden[2] is not finite":   func(x *Text, p *Position) { x.Hidden[2] = 0x7c00 },
	} {
		t.Run(want, func(t *testing.T) {
			x := good
			x.Positions, x.Hidden = slices.Clone(x.Positions), slices.Clone(x.Hidden)
			spoil(&x, &x.Positions[0])
			assert.ErrorContains(t, w.Append(x), want)
		})
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	require.NoError(t, w.Append(good))
	assert.ErrorContains(t, w.Append(good), "has all of its 2 prompts")
	require.NoError(t, w.Close())
	assert.Error(t, w.Append(Text{}))
}

// TestLimitsThemselves: values at the end of what a model can give are written and read.
func TestLimitsThemselves(t *testing.T) {
	s := settingsOf(1, 1, "x")
	const most = math.MaxInt32
	x := Text{
		Prompt: Prompt{Tokens: most - 3, Cloud: most, Rollouts: most, RolloutTokens: most},
		Positions: []Position{
			{Reference: most, Small: most, Large: most, Margin: 1, Entropy: 100, Pos: most - 3},
			{SmallLogProb: 9e-4, LargeLogProb: 9e-4, ReferenceSmall: 9e-4, ReferenceLarge: 9e-4, Pos: most - 2},
			{SmallLogProb: -math.MaxFloat32, LargeLogProb: -math.MaxFloat32, Pos: most - 1},
			{ReferenceSmall: -math.MaxFloat32, Labels: [maxRules]Verdict{Unknown, Keep, Escalate, Spoil}, Pos: most},
		},
		Hidden: []uint16{0x7bff, 0xfbff, 0x8000, 1}, // the largest finite ones, -0, the smallest
	}
	path := filepath.Join(held.TempDir(t), "t")
	fill(t, path, s, []Text{x})
	set, err := Open(path)
	require.NoError(t, err)
	defer set.Close()
	same(t, set, &s, []Text{x})
}

// TestSettingsRefused: settings that no set can have are refused.
func TestSettingsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set         func(s *Settings, n int)
		least, most int
	}{
		"tokens":  {func(s *Settings, n int) { s.MaxTokens = n }, 1, math.MaxInt32},
		"width":   {func(s *Settings, n int) { s.Width = n }, 1, maxWidth},
		"prompts": {func(s *Settings, n int) { s.Prompts = n }, 1, math.MaxInt32},
		"labels":  {func(s *Settings, n int) { s.Labels = make([]string, max(n, 0)) }, 0, maxRules},
	} {
		for n, want := range map[int]error{c.least - 1: ErrValue, c.least: nil, c.most: nil, c.most + 1: ErrValue} {
			s := settingsOf(1, 1)
			if c.set(&s, n); n >= 0 {
				assert.ErrorIs(t, s.validateLimits(), want, "%d %s", n, name)
			}
		}
	}
	_, err := Create(filepath.Join(held.TempDir(t), "t"), Settings{})
	assert.ErrorIs(t, err, ErrValue)
}

// TestResume: a file that ends anywhere is continued to the same bytes, with all finished prompts; it is not read as a
// complete one. Every changed byte is found, and the file is named.
func TestResume(t *testing.T) {
	s := settingsOf(4, 3, "x")
	texts := randomTexts(t, 8, &s)
	path := filepath.Join(held.TempDir(t), "t")
	want := fill(t, path, s, texts)
	c, err := parseContents(want)
	require.NoError(t, err)
	last := c.at[3] - promptBytes
	for n := 0; n < len(want); n += 17 {
		require.NoError(t, os.WriteFile(path, want[:n], 0o644))
		_, err := Open(path)
		require.ErrorContains(t, err, path)
		if n >= c.at[0]-promptBytes {
			require.ErrorIs(t, err, ErrIncomplete)
		}
		w, err := Create(path, s)
		require.NoError(t, err)
		done := 0
		for done < 3 && n >= c.at[done+1]-promptBytes {
			done++
		}
		require.Equal(t, done, w.Prompts(), n)
		require.NoError(t, w.Close())
		require.Equal(t, string(want), string(fill(t, path, s, texts)))
	}
	for i := range want {
		b := slices.Clone(want)
		b[i] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o644))
		_, err := Open(path)
		require.ErrorContains(t, err, path, "byte %d", i)
		if i >= last && i%17 == 0 { // perhaps the machine stopped while it was written
			require.Equal(t, string(want), string(fill(t, path, s, texts)))
		}
	}
}

// sealed returns a file with the right checksum for a record.
func sealed(line, record []byte) []byte {
	b := slices.Concat(line, record)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// TestHostile: values that this program never writes are refused by name, and sizes before anything is allocated.
func TestHostile(t *testing.T) {
	s := settingsOf(1, 3, "x")
	line, err := s.encodeHeader()
	require.NoError(t, err)
	_, good := oneText()
	_, err = parseContents(sealed(line, good))
	require.NoError(t, err)
	for _, c := range []struct {
		at    int
		value uint32
		says  string
	}{
		{0, math.MaxUint32, "field 0 is 4294967295"}, {8, 12, "flags 12"}, {8, 16, "flags 16"}, {8, 2, "flags 2"},
		{24, 1, "token 7 of prompt 1"}, {28, 6, "token 6 of prompt 0"}, {32, math.MaxUint32, "reference is -1"},
		{68, 4, "label 0 is 4"}, {76, 0x7c00, "position 0: hidden[0]"},
	} {
		t.Run(c.says, func(t *testing.T) {
			bad := slices.Clone(good)
			binary.LittleEndian.PutUint32(bad[c.at:], c.value)
			_, err := parseContents(sealed(line, bad))
			assert.ErrorIs(t, err, ErrValue)
			assert.ErrorContains(t, err, c.says)
		})
	}
	for _, positions := range []uint32{2, 1 << 30, math.MaxUint32} {
		bad := slices.Clone(good)
		binary.LittleEndian.PutUint32(bad[4:], positions)
		got, err := parseContents(sealed(line, bad))
		require.NoError(t, err)
		assert.Empty(t, got.prompts, "it is not complete")
	}
	binary.LittleEndian.PutUint32(good[4:], 0)
	_, err = parseContents(sealed(line, good))
	assert.ErrorIs(t, err, ErrChecksum)
	_, good = oneText()
	_, err = parseContents(append(sealed(line, good), 0))
	assert.ErrorContains(t, err, "1 bytes after the last prompt")
}

// TestForeign: a file that is not ours, or of other settings, is refused by name and not changed.
func TestForeign(t *testing.T) {
	s := settingsOf(2, 3, "x")
	s.Sampling = &Sampling{Temperature: 1, Seed: 1<<64 - 2}
	dir := held.TempDir(t)
	path := filepath.Join(dir, "t")
	good := string(fill(t, path, s, randomTexts(t, 9, &s)))
	for text, want := range map[string]error{
		"notes\n": ErrFormat, "{}\n": ErrFormat, strings.Repeat(" ", 2<<20): ErrFormat, "GGUF": ErrFormat,
		strings.Replace(good, `"version":2`, `"version":3`, 1): ErrVersion,
		strings.Replace(good, `"width":3`, `"width":0`, 1):     ErrValue,
		strings.Replace(good, `"data":"c"`, `"data":"d"`, 1):   ErrChecksum,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		for _, err := range []error{second(Open(path)), second(Create(path, s))} {
			assert.ErrorIs(t, err, want)
			assert.ErrorContains(t, err, path)
		}
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(after))
	}
	require.NoError(t, os.WriteFile(path, []byte(good), 0o644))
	for want, change := range map[string]func(s *Settings){
		`small (there {"fingerprint":`:         func(s *Settings) { s.Small.Name = "other" },
		`data (there "c", here "ddd`:           func(s *Settings) { s.Data = strings.Repeat("d", 1000) },
		`prompts (there 2, here 3)`:            func(s *Settings) { s.Prompts = 3 },
		`labels (there ["x"], here ["x","y"])`: func(s *Settings) { s.Labels = []string{"x", "y"} },
		`"seed":18446744073709551614}, here {"temperature":1,"seed":18446744073709551615})`: func(s *Settings) {
			s.Sampling = &Sampling{Temperature: 1, Seed: 1<<64 - 1}
		},
		`sampling (there {"temperature":1,"seed":18446744073709551614}, here null)`: func(s *Settings) {
			s.Sampling = nil
		},
		`routing (there null, here {"router":"abc"`: func(s *Settings) { s.Routing = &Routing{Router: "abc"} },
	} {
		other := s
		change(&other)
		_, err := Create(path, other)
		assert.ErrorContains(t, err, path+" holds traces of other settings: ")
		assert.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 500, "long settings are cut")
	}
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, good, string(b))
	for _, other := range []string{dir, os.DevNull} {
		assert.ErrorContains(t, second(Open(other)), "not a regular file")
	}
	assert.Error(t, second(Create(dir, s)))
	assert.ErrorIs(t, second(Open(filepath.Join(dir, "none"))), os.ErrNotExist)
	assert.ErrorIs(t, second(Create(filepath.Join(dir, "none", "t"), s)), os.ErrNotExist)
}

func second[T any](_ T, err error) error { return err }

// TestCreateAgain: settings may change as long as there is no prompt, and a file has one writer.
func TestCreateAgain(t *testing.T) {
	path, s := filepath.Join(held.TempDir(t), "t"), settingsOf(2, 3, "x")
	w, err := Create(path, s)
	require.NoError(t, err)
	assert.ErrorContains(t, second(Create(path, s)), "another process is writing traces to "+path)
	require.NoError(t, w.Close())
	s.Raw = true
	fill(t, path, s, randomTexts(t, 3, &s))
	set, err := Open(path)
	require.NoError(t, err)
	defer set.Close()
	assert.True(t, set.Settings().Raw)
}

func FuzzParse(f *testing.F) {
	for seed := range uint64(3) {
		s := settingsOf(3, 2, "x")
		f.Add(fill(f, filepath.Join(held.TempDir(f), "t"), s, randomTexts(f, seed, &s)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseContents(b)
		if err != nil {
			return
		}
		line, err := c.settings.encodeHeader()
		require.NoError(t, err)
		again, err := parseSettings(line)
		require.NoError(t, err)
		second, err := again.encodeHeader()
		require.NoError(t, err)
		require.Equal(t, string(line), string(second))
		s := &Set{contents: *c}
		hidden := make([]float32, c.settings.Width)
		for p := range c.prompts {
			x := Text{Prompt: c.prompts[p]}
			for i := c.start[p]; i < c.start[p+1]; i++ {
				at := s.At(i)
				require.EqualValues(t, p, at.Prompt)
				require.EqualValues(t, x.Tokens+i-c.start[p], at.Pos)
				s.Hidden(hidden, i)
				x.Positions = append(x.Positions, at)
				x.Hidden, err = AppendHalves(x.Hidden, hidden)
				require.NoError(t, err)
			}
			written, err := x.encodeRecord(p, c.settings.Width)
			require.NoError(t, err)
			read, err := readRecord(written, p, c.settings.Width)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(x.Prompt), fmt.Sprint(read))
		}
	})
}
