// Package chart draws lines and rows of spans as SVG, with light and dark colours.
package chart

import (
	"fmt"
	"math"
	"strings"
)

// Chart is a picture of lines over two axes.
type Chart struct {
	Title string
	X, Y  Axis
	Lines []Line
}

// Line connects its points in order. A point with NaN interrupts it. Lines have the colours in turn.
type Line struct {
	Name      string // in the legend
	X, Y      []float64
	Low, High []float64 // ends of intervals around Y, drawn as a band; none, or as many as points
	Dashed    bool
	Dots      bool // mark the points
}

// SVG returns the picture, as a file or an element of a page. The same chart gives the same bytes.
func (c Chart) SVG() []byte {
	f := newFrame(c.Title, 70, 320)
	f.x, f.y = c.X, c.Y
	f.drawXAxis()
	for _, t := range c.Y.tickValues() {
		_, y := f.toPixels(0, t)
		f.printf(`<path class="g" d="M%.1f %.1fH%.1f"/>`+"\n", f.left, y, f.right)
		f.printf(`<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", f.left-6, y+4, c.Y.formatValue(t))
	}
	f.printf(`<path class="a" fill="none" d="M%.1f %.1fV%.1f"/>`+"\n", f.left, f.top, f.floor)
	f.printf(`<text transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		(f.top+f.floor)/2, escapeXML(c.Y.Label))
	var keys []legendEntry
	for i, l := range c.Lines {
		class := fmt.Sprintf("l c%d", i%Colours)
		if l.Dashed {
			class += " d"
		}
		f.drawLine(i%Colours, class, l)
		keys = append(keys, legendEntry{l.Name, class})
	}
	return f.renderSVG(keys)
}

func (f *frame) drawLine(colour int, class string, l Line) {
	var path, dots strings.Builder
	var there, back string // the band: forward along the upper ends, and back along the lower ones
	pen := 'M'
	for k, x := range l.X {
		if math.IsNaN(x) || math.IsNaN(l.Y[k]) {
			pen = 'M'
			continue
		}
		px, py := f.toPixels(x, l.Y[k])
		fmt.Fprintf(&path, "%c%.1f %.1f", pen, px, py)
		pen = 'L'
		if l.Dots {
			fmt.Fprintf(&dots,
				`<circle class="f c%d" cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s, %s</title></circle>`+"\n",
				colour, px, py, escapeXML(l.Name), f.x.formatValue(x), f.y.formatValue(l.Y[k]))
		}
		if len(l.Low) == len(l.X) && len(l.High) == len(l.X) && !math.IsNaN(l.Low[k]+l.High[k]) {
			_, high := f.toPixels(x, l.High[k])
			_, low := f.toPixels(x, l.Low[k])
			there += fmt.Sprintf("%.1f,%.1f ", px, high)
			back = fmt.Sprintf("%.1f,%.1f ", px, low) + back
		}
	}
	if there != "" {
		f.printf(`<polygon class="n c%d" points="%s%s"/>`+"\n", colour, there, back)
	}
	f.printf(`<path class="%s" d="%s"/>`+"\n%s", class, path.String(), dots.String())
}
