package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"unicode/utf8"
)

// Colours is the number of colours.
const Colours = 12

// Style is the style sheet of a picture. Colours follow the colour-scheme of its page.
const Style = `.chart{display:block;width:100%;height:auto}
.chart text{font:13px system-ui,sans-serif;fill:#222}.chart .t{font-size:15px;font-weight:600}.chart .bg{fill:#fff}
.chart .g{stroke:#ddd}.chart .a{stroke:#666}
.chart .l{fill:none;stroke:currentColor;stroke-width:2}.chart .d{stroke-dasharray:5 4}
.chart .f{fill:currentColor}.chart .n{fill:currentColor;fill-opacity:.16}.chart .k{stroke-width:12}
.chart .c0{color:#0072b2}.chart .c1{color:#d55e00}.chart .c2{color:#009e73}.chart .c3{color:#777}
.chart .c4{color:#a6408f}.chart .c5{color:#b58900}.chart .c6{color:#3b3fb6}.chart .c7{color:#8c4a2f}
.chart .c8{color:#0a8f9c}.chart .c9{color:#d0387f}.chart .c10{color:#6b7a00}.chart .c11{color:#222}
@media(prefers-color-scheme:dark){.chart text{fill:#ddd}.chart .bg{fill:#16181c}
.chart .g{stroke:#333}.chart .a{stroke:#999}
.chart .c0{color:#56b4e9}.chart .c1{color:#ff8c42}.chart .c2{color:#2ec79b}.chart .c3{color:#aaa}
.chart .c4{color:#e08bcf}.chart .c5{color:#f0d048}.chart .c6{color:#9a9ef5}.chart .c7{color:#d9a08a}
.chart .c8{color:#4fd6e3}.chart .c9{color:#ff7fb8}.chart .c10{color:#b9c94a}.chart .c11{color:#eee}}
`

// The layout of a picture, in units of its own: its width, and the approximate width of a letter.
const (
	width  = 640.0
	letter = 7.2
)

// frame collects the elements of a picture over its axes.
type frame struct {
	title                   string
	b                       bytes.Buffer
	left, right, top, floor float64 // ends of the plot area
	x, y                    Axis
}

func newFrame(title string, left, tall float64) *frame {
	return &frame{title: title, left: left, right: width - 20, top: 40, floor: 40 + tall}
}

func (f *frame) printf(format string, args ...any) { fmt.Fprintf(&f.b, format, args...) }

func (f *frame) toPixels(x, y float64) (px, py float64) {
	return f.left + f.x.relativePosition(x)*(f.right-f.left), f.floor - f.y.relativePosition(y)*(f.floor-f.top)
}

func (f *frame) drawXAxis() {
	for _, t := range f.x.tickValues() {
		x, _ := f.toPixels(t, 0)
		f.printf(`<path class="g" d="M%.1f %.1fV%.1f"/>`+"\n", x, f.floor, f.top)
		f.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x, f.floor+18, f.x.formatValue(t))
	}
	f.printf(`<path class="a" fill="none" d="M%.1f %.1fH%.1f"/>`+"\n", f.left, f.floor, f.right)
	f.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", (f.left+f.right)/2, f.floor+44,
		escapeXML(f.x.Label))
}

// legendEntry is an entry of the legend.
type legendEntry struct{ name, class string }

// renderSVG returns the picture with its legend at the bottom, in as many lines as needed.
func (f *frame) renderSVG(keys []legendEntry) []byte {
	const mark, gap, line = 26.0, 18.0, 20.0
	x, y := 16.0, f.floor+70
	for _, k := range keys {
		name := truncateText(k.name, int((width-2*16-mark-6)/letter))
		took := mark + 6 + letter*float64(utf8.RuneCountInString(name))
		if x+took > width-16 {
			x, y = 16, y+line
		}
		f.printf(`<path class="%s" d="M%.1f %.1fH%.1f"/>`, k.class, x, y-4, x+mark)
		f.printf(`<text x="%.1f" y="%.1f">%s</text>`+"\n", x+mark+6, y, escapeXML(name))
		x += took + gap
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %.0f %.0f" role="img" `+
		`aria-label="%s">`+"\n<style>\n%s</style>\n", width, y+14, escapeXML(f.title), Style)
	fmt.Fprintf(&all, `<rect class="bg" width="%.0f" height="%.0f"/>`+"\n", width, y+14)
	fmt.Fprintf(&all, `<text class="t" x="16" y="24">%s</text>`+"\n", escapeXML(truncateText(f.title, 71)))
	f.b.WriteTo(&all)
	all.WriteString("</svg>\n")
	return all.Bytes()
}

// truncateText returns text, shortened to most letters, at least one.
func truncateText(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

func escapeXML(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // cannot fail with this writer
	return b.String()
}
