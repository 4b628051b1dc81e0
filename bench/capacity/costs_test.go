package capacity

import (
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// TestTime: Time returns the times of the table exactly, and interpolates and extrapolates linearly. Costs that do not
// fall with more rows or heads give times that do not fall either.
func TestTime(t *testing.T) {
	c := linear(10, 2, 1)
	for rows := 1; rows < 500; rows++ {
		assert.Equal(t, ms(10+2*float64(rows)), c.Time(rows, 1), rows)
		assert.Equal(t, ms(10+3*float64(rows)-1), c.Time(rows, rows), rows)
		assert.Equal(t, ms(10+2*float64(rows)+float64(rows/2)), c.Time(rows, rows/2+1), rows)
	}
	assert.Equal(t, ms(10+2*5-1), c.Time(5, 0), "a part of a prompt predicts nothing")
	assert.Equal(t, ms(12), c.Time(1, 0))
	assert.Zero(t, c.Time(0, 0))
	one := Costs{Threads: 1, Passes: []Pass{{1, 4, 4}}}
	assert.Equal(t, ms(4), one.Time(1, 1))
	assert.Equal(t, ms(12), one.Time(3, 1), "without a measurement of shared passes, rows share nothing")
	falling := Costs{Threads: 1, Passes: []Pass{{1, 10, 10}, {16, 9, 11}}}
	assert.Equal(t, ms(9), falling.Time(100, 1), "beyond the table no time falls")
	assert.Equal(t, ms(11+84./15), falling.Time(100, 100))
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		c := Costs{Threads: 1}
		at, rows := r.Float64()+0.01, 1
		for range 1 + r.IntN(6) {
			c.Passes = append(c.Passes, Pass{rows, at, at + r.Float64()*float64(min(rows-1, 1))})
			at, rows = at+r.Float64(), rows+1+r.IntN(40)
		}
		require.NoError(t, c.Validate())
		for _, p := range c.Passes {
			assert.Equal(t, time.Duration(math.Round(p.MS*1e6)), c.Time(p.Rows, 1))
			assert.InDelta(t, p.HeadsMS*1e6, float64(c.Time(p.Rows, p.Rows)), 1)
		}
		for n := 1; n < 300; n++ {
			assert.GreaterOrEqual(t, c.Time(n+1, 1), c.Time(n, 1))
			assert.GreaterOrEqual(t, c.Time(n+1, 2), c.Time(n+1, 1))
		}
	}
}

// TestReadCosts: costs are read in the format in which they are printed. An error names the file, the line and the
// field.
func TestReadCosts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	c := linear(10, 2, 1)
	about := result.Run{Measurement: Measurement, Flags: map[string]string{}}
	line, err := result.Line(Report{Costs: c}, about)
	require.NoError(t, err)
	got, run, err := ReadCosts(write("good.jsonl", string(line)+`{"run":{"measurement":"other"}}`))
	require.NoError(t, err)
	assert.Equal(t, c, got)
	assert.Equal(t, Measurement, run.Measurement)
	packed, err := os.Create(filepath.Join(dir, "good.jsonl.gz"))
	require.NoError(t, err)
	z := gzip.NewWriter(packed)
	_, err = z.Write(line)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, packed.Close())
	got, _, err = ReadCosts(packed.Name())
	require.NoError(t, err)
	assert.Equal(t, c, got)

	_, _, err = ReadCosts(filepath.Join(dir, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	const of = `"run":{"measurement":"bench capacity"}`
	const first = `{"rows":1,"ms":4,"heads_ms":4}`
	passes := func(list string) string { return `{"threads":1,"passes":[` + list + `]}` }
	texts := map[string]string{"": "it is empty", "not json": "bad:1", `{"costs":1}`: "bad:1",
		`{"costs":{},"run":{"measurement":"bench gateway"}}`: `bad:1: it is of "bench gateway"`,
		`{` + of + `}`: "bad:1: it has no field costs",
	}
	for costs, want := range map[string]string{
		"null":                                   "bad:1: it has no field costs",
		"[]":                                     "bad:1",
		`{"threads":"two"}`:                      "costs.threads",
		`{"threads":0}`:                          "bad:1: costs.threads is 0",
		`{"threads":-3}`:                         "costs.threads is -3",
		`{"threads":1}`:                          "costs.passes is empty",
		`{"threads":1,"depth_tokens":-1}`:        "costs.depth_tokens is -1",
		`{"threads":1,"ask_ms":-1}`:              "costs.ask_ms is -1",
		`{"threads":1,"ask_ms":1e9}`:             "costs.ask_ms is 1e+09",
		passes(first + "," + first):              "costs.passes[1].rows is 1",
		passes(`{"rows":2,"ms":4}`):              "costs.passes[0].rows is 2",
		passes(`{"rows":1,"heads_ms":4}`):        "costs.passes[0].ms is 0",
		passes(`{"rows":1,"ms":-4}`):             "costs.passes[0].ms is -4",
		passes(`{"rows":1,"ms":6e4}`):            "costs.passes[0].heads_ms is 0",
		passes(`{"rows":1,"ms":6.1e4}`):          "costs.passes[0].ms is 61000",
		passes(`{"rows":1,"ms":4,"heads_ms":3}`): "costs.passes[0].heads_ms is 3",
		passes(first + `,{"rows":1048577,"ms":4,"heads_ms":4}`): "costs.passes[1].rows is 1048577",
	} {
		texts[`{"costs":`+costs+`,`+of+`}`] = want
	}
	for text, want := range texts {
		_, _, err := ReadCosts(write("bad", text))
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), want, text)
		assert.Contains(t, err.Error(), "bad", "the file is named")
	}
	largest := Costs{Threads: 1, AskMS: maxMS, Passes: []Pass{{1, 1, 1}, {maxRows, maxMS, maxMS}}}
	assert.NoError(t, largest.Validate())
	nan := linear(1, 1, 1)
	nan.Passes[2].MS = math.NaN()
	assert.ErrorContains(t, nan.Validate(), "costs.passes[2].ms is NaN")
}
