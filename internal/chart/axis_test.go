package chart

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {1.5, "1.5"}, {1.234, "1.23"}, {12.34, "12.3"}, {99.9, "99.9"}, {99.96, "100"},
		{123.4, "123"},
		{1000, "1,000"}, {1234567, "1,234,567"}, {-1234, "−1,234"}, {-1.5, "−1.5"}, {0.05, "0.05"}, {0.1234, "0.123"},
		{0.001, "0.001"}, {0.0001, "0.0001"}, {2e10, "2e+10"}, {-2e10, "−2e+10"}, {-2e-5, "−2e-05"},
		{math.NaN(), "–"}, {math.Inf(1), "–"}, {100, "100"},
		{10, "10"},
		{999.6, "1,000"},
	} {
		t.Run(c.want, func(t *testing.T) { assert.Equal(t, c.want, Number(c.x), c.x) })
	}
}

func TestAxes(t *testing.T) {
	for want, a := range map[string]Axis{
		"0% 20% 40% 60% 80% 100%":         {},
		"0% 10% 20% 30% 40% 50%":          {End: 0.5},
		"0 100 200 300":                   {Linear: true, End: 300},
		"0 100 200 300 400":               {Linear: true, End: 301},
		"0 500 1,000 1,500":               {Linear: true, End: 1234},
		"0 0.1 0.2 0.3":                   {Linear: true, End: 0.3},
		"0 0.2 0.4 0.6 0.8 1":             {Linear: true, End: math.NaN()},
		"0 2e+14 4e+14 6e+14 8e+14 1e+15": {Linear: true, End: 1e300},
	} {
		var all []string
		for _, x := range a.tickValues() {
			all = append(all, a.formatValue(x))
		}
		assert.Equal(t, want, strings.Join(all, " "), "%+v", a)
	}
	assert.Equal(t, 0.0, Axis{End: 4}.relativePosition(-1))
	assert.Equal(t, 0.25, Axis{End: 4}.relativePosition(1))
	assert.Equal(t, 1.0, Axis{End: 4}.relativePosition(5))
	assert.Equal(t, 0.0, Axis{}.relativePosition(math.NaN()))
}

// TestTicks: for any range, the labels of an axis are successive multiples of 1, 2 or 5 times a power of ten, and the
// axis ends at the first of them that is not below its end.
func TestTicks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		a := Axis{End: math.Pow(10, 12*r.Float64()-6)}
		all := a.tickValues()
		require.True(t, len(all) >= 3 && len(all) <= 6, "%+v: %v", a, all)
		step := all[1]
		require.Contains(t, []string{"1e", "2e", "5e"}, fmt.Sprintf("%.0e", step)[:2], "%+v: %v", a, all)
		for i, x := range all {
			require.InDelta(t, float64(i), x/step, 1e-6, "%+v: %v", a, all)
		}
		last := all[len(all)-1]
		require.True(t, last >= a.End*(1-1e-9) && last < a.End+step, "%+v: %v", a, all)
	}
}

// TestBands: intervals are drawn as a band under their line; points without an interval are left out of it.
func TestBands(t *testing.T) {
	c := Chart{
		X: Axis{Linear: true, End: 100}, Y: Axis{Linear: true, End: 10},
		Lines: []Line{{
			Name: "one", Dots: true,
			X: []float64{0, 50, 60, math.NaN(), 100}, Y: []float64{5, 5, 5, 5, 5},
			Low: []float64{4, math.NaN(), 3, 3, 3}, High: []float64{6, 9, math.NaN(), 7, 7},
		}, {Name: "other", X: []float64{0}, Y: []float64{1}, Low: []float64{0}}, {
			Name: "none", X: []float64{0}, Y: []float64{1}, Low: []float64{math.NaN()}, High: []float64{1},
		}},
	}
	all := elements(t, c.SVG())
	require.Len(t, all["polygon"], 1, "one polygon with two ends per point")
	assert.Equal(t, "n c0", all["polygon"][0]["class"])
	assert.Equal(t, "70.0,168.0 620.0,136.0 620.0,264.0 70.0,232.0 ", all["polygon"][0]["points"])
	assert.Len(t, all["circle"], 4)
	assert.Equal(t, "345.0", all["circle"][1]["cx"])
	assert.Equal(t, "f c0", all["circle"][1]["class"])
	assert.Len(t, find(all["path"], "l c1"), 2, "the second line has the second colour")
}

// TestLegend: names are below everything, one after the other, in as many lines as they need, and nothing is outside of
// the picture.
func TestLegend(t *testing.T) {
	c := Chart{Title: strings.Repeat("long ", 40)}
	for i := range 12 {
		c.Lines = append(c.Lines, Line{Name: strings.Repeat("n", 3+7*i), X: []float64{0}, Y: []float64{0}})
	}
	{
		all := elements(t, c.SVG())
		var width, height float64
		_, err := fmt.Sscanf(all["svg"][0]["viewBox"], "0 0 %f %f", &width, &height)
		require.NoError(t, err)
		for _, whole := range find(all["rect"], "bg") {
			assert.Equal(t, all["svg"][0]["viewBox"], "0 0 "+whole["width"]+" "+whole["height"])
		}
		type place struct{ x, y, end float64 }
		var before place
		seen, lines := 0, 0
		assert.Equal(t, 640.0, width)
		assert.Len(t, find(all["rect"], "bg"), 1)
		for _, e := range all["text"] {
			x, y := number(t, e["x"]), number(t, e["y"])
			if !strings.HasPrefix(e["text"], "nnn") {
				continue
			}
			seen++
			now := place{x, y, x + 7.2*float64(len([]rune(e["text"])))}
			assert.LessOrEqual(t, now.end, width-10)
			assert.Less(t, now.y, height)
			if now.y == before.y {
				assert.Greater(t, now.x, before.end, "next to the previous one")
			} else {
				assert.Greater(t, now.y, before.y)
				lines++
			}
			before = now
		}
		assert.Equal(t, 12, seen)
		assert.Less(t, lines, 12, "short names share a line")
	}
	assert.Contains(t, string(c.SVG()), "…</text>", "a title that is too long is cut")
	assert.Equal(t, "abc…", truncateText("abcdefgh", 4))
	assert.Equal(t, "äöü", truncateText("äöü", 3))
}

func TestSpans(t *testing.T) {
	s := Spans{
		Title: "of <rows>", X: Axis{Label: "ms", Linear: true, End: 100},
		Kinds: []string{"step", "ask"},
		Rows: []Row{
			{Name: "first & longest of all the names there are",
				Spans: []Span{{To: 50, Text: "a <span>"}, {From: 50, To: 50, Kind: 1}, {From: math.NaN(), To: 1}}},
			{Name: "second", Spans: []Span{{To: 30}}},
			{Name: "empty"},
		},
	}
	got := s.SVG()
	assert.Equal(t, got, s.SVG())
	all := elements(t, got)
	bars := find(all["rect"], "f c0")
	require.Len(t, bars, 2)
	assert.Equal(t, "170.0", bars[0]["x"])
	const inner = 640 - 170 - 20.0
	assert.InDelta(t, inner/2, number(t, bars[0]["width"]), 0.06)
	thin := find(all["rect"], "f c1")
	require.Len(t, thin, 1)
	assert.Equal(t, "1.2", thin[0]["width"], "a moment is visible")
	assert.Len(t, find(all["path"], "l k c0"), 1, "the legend has the colours of the spans")
	assert.Len(t, find(all["path"], "l k c1"), 1)
	assert.Less(t, number(t, bars[0]["y"]), number(t, bars[1]["y"]))
	var texts []string
	for _, e := range all["text"] {
		texts = append(texts, e["text"])
	}
	assert.Subset(t, texts, []string{"ms", "0", "20", "100"}, "the axis")
	assert.Contains(t, texts, "first & longest of a…")
	assert.Equal(t, "a <span>", all["title"][0]["text"])
	assert.NotContains(t, string(got), "NaN")
	ticks := find(all["path"], "g")
	require.Len(t, ticks, 6)
	assert.Equal(t, "M170.0 120.0V40.0", ticks[0]["d"])
	assert.Equal(t, "M620.0 120.0V40.0", ticks[5]["d"])
	assert.Equal(t, "M170.0 120.0H620.0", find(all["path"], "a")[0]["d"])
}

// FuzzPictures: for any numbers and names, the picture is complete and finite.
func FuzzPictures(f *testing.F) {
	f.Add(1.0, 0.5, 3.0, "name", false)
	f.Add(math.NaN(), -1e308, 1e308, "<&\x00\xff", true)
	f.Add(1.0, math.NaN(), math.NaN(), "no numbers", false)
	f.Add(1e308, 1e-300, 5.0, "", true)
	f.Add(1e-320, 1e300, 5.0, "", true)
	f.Fuzz(func(t *testing.T, end, x, y float64, name string, linear bool) {
		a := Axis{Label: name, Linear: linear, End: end}
		c := Chart{Title: name, X: a, Y: a, Lines: []Line{{
			Name: name, X: []float64{x, y}, Y: []float64{y, end}, Low: []float64{x, x}, High: []float64{y, y},
			Dots: true,
		}}}
		s := Spans{Title: name, X: a, Kinds: []string{name},
			Rows: []Row{{Name: name, Spans: []Span{{From: x, To: y, Text: name}}}}}
		for _, b := range [][]byte{c.SVG(), s.SVG()} {
			assert.Less(t, len(b), 100_000+100*len(name))
			for class, all := range elements(t, b) {
				for _, e := range all {
					for k, v := range e {
						if k != "text" && k != "aria-label" {
							assert.NotRegexp(t, `NaN|Inf|e\+`, v, "%s %s", class, k)
						}
					}
				}
			}
		}
	})
}
