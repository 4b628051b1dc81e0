package chart

import (
	"fmt"
	"math"
)

// Spans is a picture of rows, one below the other, over one axis: a time line.
type Spans struct {
	Title string
	X     Axis
	Kinds []string // of spans, for the legend: their colours in turn
	Rows  []Row
}

// Row is a row of spans.
type Row struct {
	Name  string
	Spans []Span
}

// Span is a part of a row. An empty one is drawn as a thin line.
type Span struct {
	From, To float64
	Kind     int    // index in Kinds
	Text     string // tooltip
}

// SVG returns the picture, as a file or an element of a page. The same spans give the same bytes.
func (s Spans) SVG() []byte {
	const bar, gap = 16.0, 8.0
	f := newFrame(s.Title, 170, (bar+gap)*float64(len(s.Rows))+gap)
	f.x = s.X
	f.drawXAxis()
	for i, r := range s.Rows {
		top := f.top + gap + (bar+gap)*float64(i)
		f.printf(`<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", f.left-8, top+12.5,
			escapeXML(truncateText(r.Name, 21)))
		for _, one := range r.Spans {
			if math.IsNaN(one.From) || math.IsNaN(one.To) {
				continue
			}
			x0, _ := f.toPixels(one.From, 0)
			x1, _ := f.toPixels(one.To, 0)
			f.printf(`<rect class="f c%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`+"\n",
				one.Kind, x0, top, max(x1-x0, 1.2), bar, escapeXML(one.Text))
		}
	}
	var keys []legendEntry
	for i, name := range s.Kinds {
		keys = append(keys, legendEntry{name, fmt.Sprintf("l k c%d", i)})
	}
	return f.renderSVG(keys)
}
