// Package chart draws lines, bars and rows of spans as SVG, with light and dark colours.
package chart

import (
	"fmt"
	"math"
)

// Chart is a picture of lines and bars over two axes.
type Chart struct {
	Title string
	X, Y  Axis
	Bars  []Bar
	Lines []Line
}

// Bar is a bar on the axis X.
type Bar struct{ From, To, Height float64 }

// Line connects its points in order. A point with NaN interrupts it.
type Line struct {
	Name      string // in the legend; "" leaves it out
	X, Y      []float64
	Low, High []float64 // ends of intervals around Y, drawn as a band; none, or as many as points
	Dashed    bool
	Dots      bool // mark the points
	Colour    int  // 1 to [Colours]; 0: in turn
}

// SVG returns the picture, as a file or an element of a page. The same chart gives the same bytes.
func (c Chart) SVG() []byte {
	f := newFrame(c.Title)
	p := plot{f, c.X.fitted(), c.Y.fitted()}
	p.axes()
	for _, bar := range c.Bars {
		x, y := p.place(bar.From, bar.Height)
		end, floor := p.place(bar.To, p.y.Start)
		f.printf(`<rect class="b" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", x, y, end-x, floor-y)
	}
	var keys []key
	for i, l := range c.Lines {
		p.line(i, l)
		if l.Name != "" {
			keys = append(keys, key{l.Name, class("l", l.colour(i), l.Dashed)})
		}
	}
	return f.finish(keys)
}

// plot is a frame with two axes.
type plot struct {
	*frame
	x, y Axis
}

// place returns the position of a point in the picture. Values beyond an axis are drawn at its end.
func (p plot) place(x, y float64) (px, py float64) {
	return p.left + p.x.part(x)*p.inner(), p.floor() - p.y.part(y)*p.tall
}

// axes draws both axes.
func (p plot) axes() {
	x0, x1, y0, y1 := p.left, p.left+p.inner(), p.floor(), p.floor()-p.tall
	room := p.inner() / 44 // labels side by side
	for _, t := range p.x.ticks(room) {
		x, _ := p.place(t, 0)
		p.printf(`<path class="g" d="M%.1f %.1fV%.1f"/>`+"\n", x, y0, y1)
		p.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x, y0+18, p.x.text(t))
	}
	for _, t := range p.y.ticks(p.tall / 30) {
		_, y := p.place(0, t)
		p.printf(`<path class="g" d="M%.1f %.1fH%.1f"/>`+"\n", x0, y, x1)
		p.printf(`<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", x0-6, y+4, p.y.text(t))
	}
	p.printf(`<path class="a" fill="none" d="M%.1f %.1fV%.1fH%.1f"/>`+"\n", x0, y1, y0, x1)
	p.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", (x0+x1)/2, y0+44, escaped(p.x.Label))
	p.printf(`<text transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y0+y1)/2,
		escaped(p.y.Label))
}

// line draws one line over its band.
func (p plot) line(i int, l Line) {
	p.printf(`<g data-series="%s">`+"\n", escaped(l.Name))
	defer p.printf("</g>\n")
	colour := l.colour(i)
	if len(l.Low) == len(l.X) && len(l.High) == len(l.X) {
		p.band(colour, l)
	}
	p.printf(`<path class="%s" d="`, class("l", colour, l.Dashed))
	pen := byte('M')
	for k, x := range l.X {
		if math.IsNaN(x) || math.IsNaN(l.Y[k]) {
			pen = 'M'
			continue
		}
		px, py := p.place(x, l.Y[k])
		p.printf("%c%.1f %.1f", pen, px, py)
		pen = 'L'
	}
	p.printf(`"/>` + "\n")
	for k, x := range l.X {
		if l.Dots && !math.IsNaN(x) && !math.IsNaN(l.Y[k]) {
			px, py := p.place(x, l.Y[k])
			p.printf(`<circle class="f c%d" cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s, %s</title></circle>`+"\n",
				colour, px, py, escaped(l.Name), p.x.text(x), p.y.text(l.Y[k]))
		}
	}
}

// band draws the intervals of a line: forward along their upper ends, and back along their lower ones.
func (p plot) band(colour int, l Line) {
	var there, back string
	for k, x := range l.X {
		if math.IsNaN(x) || math.IsNaN(l.Low[k]) || math.IsNaN(l.High[k]) {
			continue
		}
		px, high := p.place(x, l.High[k])
		_, low := p.place(x, l.Low[k])
		there += fmt.Sprintf("%.1f,%.1f ", px, high)
		back = fmt.Sprintf("%.1f,%.1f ", px, low) + back
	}
	if there != "" {
		p.printf(`<polygon class="n c%d" points="%s%s"/>`+"\n", colour, there, back)
	}
}

// colour returns the colour of the line with index i.
func (l Line) colour(i int) int {
	if l.Colour > 0 {
		return (l.Colour - 1) % Colours
	}
	return i % Colours
}
