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
.chart .g{stroke:#ddd}.chart .a{stroke:#666}.chart .b{fill:#0072b2;fill-opacity:.25;stroke:#0072b2}
.chart .l{fill:none;stroke:currentColor;stroke-width:2}.chart .d{stroke-dasharray:5 4}
.chart .f{fill:currentColor}.chart .n{fill:currentColor;fill-opacity:.16}` +
	`.chart .w{fill:none;stroke:#222;stroke-width:1.5}.chart .k{stroke-width:12}
.chart .c0{color:#0072b2}.chart .c1{color:#d55e00}.chart .c2{color:#009e73}.chart .c3{color:#777}
.chart .c4{color:#a6408f}.chart .c5{color:#b58900}.chart .c6{color:#3b3fb6}.chart .c7{color:#8c4a2f}
.chart .c8{color:#0a8f9c}.chart .c9{color:#d0387f}.chart .c10{color:#6b7a00}.chart .c11{color:#222}
@media(prefers-color-scheme:dark){.chart text{fill:#ddd}.chart .bg{fill:#16181c}` +
	`.chart .g{stroke:#333}.chart .a{stroke:#999}
.chart .b{fill:#56b4e9;stroke:#56b4e9}.chart .w{stroke:#ddd}
.chart .c0{color:#56b4e9}.chart .c1{color:#ff8c42}.chart .c2{color:#2ec79b}.chart .c3{color:#aaa}
.chart .c4{color:#e08bcf}.chart .c5{color:#f0d048}.chart .c6{color:#9a9ef5}.chart .c7{color:#d9a08a}
.chart .c8{color:#4fd6e3}.chart .c9{color:#ff7fb8}.chart .c10{color:#b9c94a}.chart .c11{color:#eee}}
`

// frame collects the elements of a picture. Its layout is in units of its own.
type frame struct {
	title       string
	b           bytes.Buffer
	width, tall float64 // of the picture; height of the plot area between the axes
	left, right float64 // margins of the plot area
	top         float64 // margin above it
	below       float64 // height below it: labels of the axis
}

func newFrame(title string) *frame {
	return &frame{title: title, width: 640, tall: 320, left: 70, right: 20, top: 40, below: 70}
}

func (f *frame) printf(format string, args ...any) { fmt.Fprintf(&f.b, format, args...) }

// inner returns the width of the plot area.
func (f *frame) inner() float64 { return f.width - f.left - f.right }

// floor returns the lower end of the plot area.
func (f *frame) floor() float64 { return f.top + f.tall }

// key is an entry of the legend.
type key struct{ name, class string }

// finish returns the picture with its legend at the bottom.
func (f *frame) finish(keys []key) []byte {
	height := f.legend(keys, f.floor()+f.below)
	inside := bytes.Clone(f.b.Bytes())
	f.b.Reset()
	f.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %.0f %.0f" role="img" `+
		`aria-label="%s">`+"\n", f.width, height, escaped(f.title))
	f.printf("<style>\n%s</style>\n", Style)
	f.printf(`<rect class="bg" width="%.0f" height="%.0f"/>`+"\n", f.width, height)
	f.printf(`<text class="t" x="16" y="24">%s</text>`+"\n", escaped(shortened(f.title, int(f.width/9))))
	f.b.Write(inside)
	f.printf("</svg>\n")
	return f.b.Bytes()
}

// letter is the approximate width of a letter.
const letter = 7.2

// legend draws the legend from y on, in as many lines as needed, and returns where it ends.
func (f *frame) legend(keys []key, y float64) float64 {
	const mark, gap, line = 26.0, 18.0, 20.0
	if len(keys) == 0 {
		return y
	}
	x := 16.0
	for _, k := range keys {
		name := shortened(k.name, int((f.width-2*16-mark-6)/letter))
		took := mark + 6 + letter*float64(utf8.RuneCountInString(name))
		if x+took > f.width-16 {
			x, y = 16, y+line
		}
		f.printf(`<g data-series="%s"><path class="%s" d="M%.1f %.1fH%.1f"/>`, escaped(k.name), k.class, x, y-4, x+mark)
		f.printf(`<text x="%.1f" y="%.1f">%s</text></g>`+"\n", x+mark+6, y, escaped(name))
		x += took + gap
	}
	return y + 14
}

// shortened returns text, shortened to most letters, at least one.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// class returns the class of an element: a kind, a colour, and whether it is dashed.
func class(kind string, colour int, dashed bool) string {
	name := fmt.Sprintf("%s c%d", kind, colour)
	if dashed {
		name += " d"
	}
	return name
}

func escaped(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // cannot fail with this writer
	return b.String()
}
