package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

const good = `{"a":1,"run":{"measurement":"demo"}}`

func TestRead(t *testing.T) {
	all, err := Read(strings.NewReader("\n"+good+"\n\n"+good), "file")
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "file:2", all[0].Source)
	assert.Equal(t, "file:4", all[1].Source, "empty lines count")
	assert.Equal(t, "demo", all[1].Run.Measurement)
	assert.JSONEq(t, good, string(all[0].Fields))

	all, err = Read(strings.NewReader(good+"\n"+strings.Replace(good, "demo", "eval", 1)), "file")
	require.NoError(t, err)
	assert.Equal(t, "demo", all[0].Run.Measurement, "not that of the next line, which reuses the buffer of the reader")
	assert.JSONEq(t, good, string(all[0].Fields))

	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "file: not a line of a measurement: it is empty"},
		{"blank lines", "\n\n", "it is empty"},
		{"the second line cut off", good + "\n" + good[:len(good)-1],
			"file:2: not a line of a measurement: unexpected end of JSON input"},
		{"no run", "{}", `file:1: not a line of a measurement: it has no "run" with a "measurement"`},
		{"an empty run", `{"run":{}}`, `it has no "run"`},
		{"null as run", `{"run":null}`, `it has no "run"`},
		{"a number as run", `{"run":7}`, "cannot unmarshal"},
		{"a number as flag", `{"run":{"measurement":"demo","flags":{"a":1}}}`, "cannot unmarshal"},
		{"a list", `["a"]`, "cannot unmarshal"},
		{"null", "null", `it has no "run"`},
		{"two values in a line", good + good, "invalid character"},
		{"a number too large", `{"run":{"measurement":"demo"},"n":1e999}`, ""},
		{"no JSON after a good line", good + "\nno JSON", "file:2"},
		{"a line too long", good + "\n{\"x\":\"" + strings.Repeat("a", maxLine),
			"file:2: not a line of a measurement: it is longer than 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := Read(strings.NewReader(c.text), "file")
			if c.want == "" {
				assert.NoError(t, err, "only a reader of the field checks it")
				return
			}
			assert.Nil(t, all)
			require.ErrorIs(t, err, ErrFormat)
			assert.Contains(t, err.Error(), c.want)
		})
	}
	for i := 1; i < len(good); i++ {
		_, err := Read(strings.NewReader(good[:i]), "file")
		assert.ErrorIs(t, err, ErrFormat, "prefix: %s", good[:i])
	}
	broken := errors.New("broken")
	_, err = Read(io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)), "file")
	assert.ErrorIs(t, err, broken)
	assert.NotErrorIs(t, err, ErrFormat, "the file itself may be valid")
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(good), 0o600))
	all, err := ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, path+":1", all[0].Source)
	var wrong struct{ A string }
	assert.ErrorContains(t, all[0].Into(&wrong), path+":1: ")
	_, err = ReadFile(path + "x")
	assert.ErrorIs(t, err, os.ErrNotExist)
	held.Same(t, func() {
		_, err := ReadFile(path)
		assert.NoError(t, err)
	})
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{"", good, good + "\n" + good,
		`{"run":{"measurement":"x","date":"2026-01-01T00:00:00Z"}}`, "{", "[]", "null"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := Read(bytes.NewReader(b), "f")
		if err != nil {
			assert.Nil(t, all)
			return
		}
		require.NotEmpty(t, all)
		for _, r := range all {
			assert.NotEmpty(t, r.Run.Measurement)
			assert.True(t, json.Valid(r.Fields))
			line, err := record.Line(map[string]json.RawMessage{}, r.Run)
			require.NoError(t, err)
			again, err := Read(bytes.NewReader(line), "f")
			require.NoError(t, err)
			assert.Equal(t, r.Run, again[0].Run, "a read line can be written")
		}
	})
}

// TestSummarise: percentiles are the sample times at their ranks, to a thousandth, and the mean is exact.
func TestSummarise(t *testing.T) {
	assert.Zero(t, Summarise[int64](nil))
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		all := make([]time.Duration, 1+r.IntN(3000))
		sum := 0.0
		for i := range all {
			all[i] = time.Duration(float64(time.Microsecond) * (1 + 1e7*r.Float64()*r.Float64()))
			sum += Milliseconds(all[i])
		}
		s := Summarise(all)
		slices.Sort(all)
		assert.InEpsilon(t, sum/float64(len(all)), s.Mean, 1e-9)
		for _, p := range []struct{ percent, got float64 }{{50, s.P50}, {90, s.P90}, {99, s.P99}, {99.9, s.P999},
			{100, s.Max}} {
			rank := int(p.percent/100*float64(len(all)) + 0.5) // as the histogram counts
			want := Milliseconds(all[min(max(rank, 1), len(all))-1])
			assert.InEpsilon(t, want, p.got, 2e-3, "%v%% of %d", p.percent, len(all))
		}
	}
	s := Summarise([]time.Duration{-time.Second, 0, 100 * time.Hour})
	assert.InEpsilon(t, Milliseconds(longest), s.P99, 1e-3, "times beyond the range count as its end")
	one := Summarise([]time.Duration{1500 * time.Microsecond})
	assert.Equal(t, 1.5, one.Mean)
	assert.InEpsilon(t, 1.5, one.P50, 1e-3)
	assert.Equal(t, one.P50, one.P99)
	h := NewHistogram()
	assert.NoError(t, h.RecordValue(int64(longest)))
	assert.Equal(t, 1.5, Milliseconds(1500*time.Microsecond))
	assert.Equal(t, []float64{1.5, 1.501}, []float64{Rounded(1500499), Rounded(1500500)})
}

// TestPeakRSS: the peak of memory is in bytes, as the system itself reports it.
func TestPeakRSS(t *testing.T) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return // another system
	}
	var kib float64
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	_, err = fmt.Sscan(after, &kib)
	require.NoError(t, err)
	assert.InEpsilon(t, kib*1024, float64(PeakRSS()), 0.5)
}
