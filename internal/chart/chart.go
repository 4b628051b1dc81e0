// Package chart draws lines and bars of shares as SVG files, which show on light and on dark pages.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// Chart is one picture. Both axes are shares, from 0 to their ends, and are shown in percent.
type Chart struct {
	Title string
	X, Y  Axis
	Bars  []Bar
	Lines []Line
}

// Axis is one of the two.
type Axis struct {
	Label string  // what it is a share of
	End   float64 // above 0; 0 means 1
}

// Bar stands on the axis X.
type Bar struct{ From, To, Height float64 }

// Line joins its points in their order. A point that is no number parts it.
type Line struct {
	Name   string // in the legend; "" leaves it out of it
	X, Y   []float64
	Dashed bool
}

// The picture, in its own units.
const (
	width, height = 640, 420
	left, right   = 70, 20
	top, bottom   = 40, 60
)

const style = `<style>
text{font:13px system-ui,sans-serif;fill:#222}.t{font-size:15px;font-weight:600}.bg{fill:#fff}
.g{stroke:#ddd}.a{stroke:#666}.b{fill:#0072b2;fill-opacity:.25;stroke:#0072b2}
.l{fill:none;stroke-width:2}.d{stroke-dasharray:5 4}
.c0{stroke:#0072b2}.c1{stroke:#d55e00}.c2{stroke:#009e73}.c3{stroke:#777}
@media(prefers-color-scheme:dark){text{fill:#ddd}.bg{fill:#16181c}.g{stroke:#333}.a{stroke:#999}
.b{fill:#56b4e9;stroke:#56b4e9}.c0{stroke:#56b4e9}.c1{stroke:#e69f00}.c2{stroke:#2ec79b}.c3{stroke:#aaa}}
</style>
`

const colours = 4 // of lines, in turn

// SVG returns the file. The same chart gives the same bytes.
func (c Chart) SVG() []byte {
	b := new(bytes.Buffer)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		width, height, escaped(c.Title))
	b.WriteString(style)
	fmt.Fprintf(b, `<rect class="bg" width="%d" height="%d"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text class="t" x="%d" y="24">%s</text>`+"\n", left, escaped(c.Title))
	c.axes(b)
	for _, bar := range c.Bars {
		x, y := c.place(bar.From, bar.Height)
		end, floor := c.place(bar.To, 0)
		fmt.Fprintf(b, `<rect class="b" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", x, y, end-x, floor-y)
	}
	for i, l := range c.Lines {
		c.line(b, i, l)
	}
	c.legend(b)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// end is where an axis ends.
func (a Axis) end() float64 {
	if a.End == 0 {
		return 1
	}
	return a.End
}

// place is where a point is in the picture. What lies beyond an axis is at its end.
func (c Chart) place(x, y float64) (px, py float64) {
	x, y = min(max(x/c.X.end(), 0), 1), min(max(y/c.Y.end(), 0), 1)
	return left + x*(width-left-right), height - bottom - y*(height-top-bottom)
}

// axes draws both, with five steps each.
func (c Chart) axes(b *bytes.Buffer) {
	const steps = 5
	x0, y0 := c.place(0, 0)
	x1, y1 := c.place(c.X.end(), c.Y.end())
	for i := range steps + 1 {
		share := float64(i) / steps
		x, y := c.place(share*c.X.end(), share*c.Y.end())
		fmt.Fprintf(b, `<path class="g" d="M%.1f %.1fV%.1fM%.1f %.1fH%.1f"/>`+"\n", x, y0, y1, x0, y, x1)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%.4g%%</text>`+"\n", x, y0+18, 100*share*c.X.end())
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end">%.4g%%</text>`+"\n", x0-6, y+4, 100*share*c.Y.end())
	}
	fmt.Fprintf(b, `<path class="a" fill="none" d="M%.1f %.1fV%.1fH%.1f"/>`+"\n", x0, y1, y0, x1)
	fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", (x0+x1)/2, height-16, escaped(c.X.Label))
	fmt.Fprintf(b, `<text transform="translate(18 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y0+y1)/2,
		escaped(c.Y.Label))
}

// line draws one line.
func (c Chart) line(b *bytes.Buffer, i int, l Line) {
	fmt.Fprintf(b, `<path class="%s" d="`, class(i, l))
	pen := byte('M')
	for k, x := range l.X {
		if math.IsNaN(x) || math.IsNaN(l.Y[k]) {
			pen = 'M'
			continue
		}
		px, py := c.place(x, l.Y[k])
		fmt.Fprintf(b, "%c%.1f %.1f", pen, px, py)
		pen = 'L'
	}
	b.WriteString(`"/>` + "\n")
}

func class(i int, l Line) string {
	name := fmt.Sprintf("l c%d", i%colours)
	if l.Dashed {
		name += " d"
	}
	return name
}

// legend names the lines, in the lower right corner.
func (c Chart) legend(b *bytes.Buffer) {
	y := float64(height - bottom - 12)
	for i := len(c.Lines) - 1; i >= 0; i-- {
		l := c.Lines[i]
		if l.Name == "" {
			continue
		}
		const x = width - right - 12
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", x-34, y, escaped(l.Name))
		fmt.Fprintf(b, `<path class="%s" d="M%d %.1fH%d"/>`+"\n", class(i, l), x-28, y-4, x)
		y -= 18
	}
}

func escaped(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // fails only where b does, which never fails
	return b.String()
}
