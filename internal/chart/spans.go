package chart

import "math"

// Spans is a picture of rows, one below the other, over one axis: a time line.
type Spans struct {
	Title string
	X     Axis
	Kinds []Kind // of spans, for the legend
	Rows  []Row
}

// Kind is an entry of the legend.
type Kind struct {
	Name   string
	Colour int // as in [Span]
}

// Row is a row of spans.
type Row struct {
	Name  string
	Spans []Span
}

// Span is a part of a row. An empty one is drawn as a thin line.
type Span struct {
	From, To float64
	Colour   int    // from 0 on; beyond [Colours] they repeat
	Text     string // tooltip
}

// SVG returns the picture, as a file or an element of a page. The same spans give the same bytes.
func (s Spans) SVG() []byte {
	const bar, gap = 16.0, 8.0
	f := newFrame(s.Title)
	f.left = 170
	f.tall = (bar+gap)*float64(len(s.Rows)) + gap
	p := plot{f, s.X.fitted(), Axis{}.fitted()}
	p.ruler()
	for i, r := range s.Rows {
		top := f.top + gap + (bar+gap)*float64(i)
		p.printf(`<g data-series="%s">`+"\n", escaped(r.Name))
		p.printf(`<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", f.left-8, top+12.5,
			escaped(shortened(r.Name, 21)))
		p.row(r, top, bar)
		p.printf("</g>\n")
	}
	var keys []key
	for _, k := range s.Kinds {
		keys = append(keys, key{k.Name, class("l k", k.Colour%Colours, false)})
	}
	return f.finish(keys)
}

// row draws the spans of one row.
func (p plot) row(r Row, top, bar float64) {
	for _, one := range r.Spans {
		if math.IsNaN(one.From) || math.IsNaN(one.To) {
			continue
		}
		x0, _ := p.place(one.From, 0)
		x1, _ := p.place(one.To, 0)
		p.printf(`<rect class="f c%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`+"\n",
			one.Colour%Colours, x0, top, max(x1-x0, 1.2), bar, escaped(one.Text))
	}
}

// ruler draws the axis at the bottom.
func (p plot) ruler() {
	y0, y1 := p.floor(), p.top
	for _, t := range p.x.ticks(p.inner() / 44) {
		x, _ := p.place(t, 0)
		p.printf(`<path class="g" d="M%.1f %.1fV%.1f"/>`+"\n", x, y0, y1)
		p.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x, y0+18, p.x.text(t))
	}
	p.printf(`<path class="a" fill="none" d="M%.1f %.1fH%.1f"/>`+"\n", p.left, y0, p.left+p.inner())
	p.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", p.left+p.inner()/2, y0+44,
		escaped(p.x.Label))
}
