package chart

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elements parses a picture: the elements by name, with their text in "text".
func elements(t *testing.T, b []byte) map[string][]map[string]string {
	all := map[string][]map[string]string{}
	d := xml.NewDecoder(bytes.NewReader(b))
	var open []map[string]string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			one := map[string]string{}
			for _, a := range e.Attr {
				one[a.Name.Local] = a.Value
			}
			all[e.Name.Local] = append(all[e.Name.Local], one)
			open = append(open, one)
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1]["text"] += string(e)
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
}

// find returns the elements of a class.
func find(all []map[string]string, class string) (some []map[string]string) {
	for _, e := range all {
		if e["class"] == class {
			some = append(some, e)
		}
	}
	return some
}

func TestChart(t *testing.T) {
	c := Chart{
		Title: `of <"a" & b>`, X: Axis{Label: "tokens, %", End: 0.5}, Y: Axis{Label: "right & wrong"},
		Lines: []Line{
			{Name: "one", X: []float64{0, 0.5, 0.25, 0.25, 9, math.NaN()},
				Y: []float64{0, 1, math.NaN(), 0.5, -1, 1}},
			{Name: "three", X: []float64{0}, Y: []float64{0}, Dashed: true},
		},
	}
	got := c.SVG()
	assert.Equal(t, got, c.SVG())
	all := elements(t, got)
	lines := find(all["path"], "l c0")
	require.Len(t, lines, 2, "the line and its legend")
	assert.Equal(t, "M70.0 360.0L620.0 40.0M345.0 200.0L620.0 360.0", lines[0]["d"], "interrupted, and clipped")
	assert.Len(t, find(all["path"], "l c1 d"), 2)
	var texts []string
	for _, e := range all["text"] {
		texts = append(texts, e["text"])
	}
	assert.Equal(t, `of <"a" & b>`, texts[0])
	for _, want := range []string{"tokens, %", "right & wrong", "one", "three", "10%", "50%", "100%", "0%"} {
		assert.Contains(t, texts, want)
	}
	at := map[string]string{} // where each text is
	for _, e := range all["text"] {
		at[e["text"]] += fmt.Sprintf("%s %s%s %s;", e["x"], e["y"], e["transform"], e["text-anchor"])
	}
	for text, want := range map[string]string{
		`of <"a" & b>`: "16 24 ;", "10%": "180.0 378.0 middle;", "20%": "290.0 378.0 middle;64.0 300.0 end;",
		"tokens, %": "345.0 404.0 middle;", "right & wrong": " translate(14 200.0) rotate(-90) middle;",
		"one": "48.0 430.0 ;", "three": "119.6 430.0 ;",
	} {
		assert.Equal(t, want, at[text], text)
	}
	assert.Equal(t, "M16.0 426.0H42.0", lines[1]["d"], "beside its name")
	assert.NotContains(t, string(got), "NaN")
	assert.Contains(t, string(got), "prefers-color-scheme:dark")
	assert.Equal(t, 1, strings.Count(string(got), "<svg "))
	assert.Equal(t, "M70.0 360.0V40.0", find(all["path"], "g")[0]["d"], "the grid")
	assert.Equal(t, "M70.0 40.0H620.0", find(all["path"], "g")[11]["d"])
	assert.Equal(t, "M70.0 360.0H620.0", find(all["path"], "a")[0]["d"])
	assert.Equal(t, "M70.0 40.0V360.0", find(all["path"], "a")[1]["d"])
	c.Lines = nil
	all = elements(t, c.SVG())
	assert.Equal(t, "0 0 640 444", all["svg"][0]["viewBox"], "without a legend")
	ground := find(all["rect"], "bg")
	require.Len(t, ground, 1)
	assert.Equal(t, "640 444", ground[0]["width"]+" "+ground[0]["height"])
}

// number parses an attribute.
func number(t *testing.T, text string) float64 {
	x, err := strconv.ParseFloat(cmp.Or(text, "0"), 64)
	require.NoError(t, err)
	return x
}
