package report

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

//go:embed page.gohtml
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// page has the data of the template.
type page struct {
	*Report
	Style                 template.CSS
	Script                template.JS
	StyleHash, ScriptHash string
}

// WriteHTML writes the report as one self-contained page. Its content security policy only allows its own style and
// script, by their hashes, and no address.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"percent": percent, "hundred": func(x float64) float64 { return 100 * x },
		"bytes":  func(n int64) string { return humanize.IBytes(uint64(max(n, 0))) },
		"number": chart.Number, "value": value, "short": short, "model": modelName, "plural": plural,
		"keys":  func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
		"drawn": drawn, "figure": func(p Picture) figure { return figure{p.Part(false), p.Part(true)} },
		"engines": engines, "types": types,
	}).Parse(pageText)
	if err != nil {
		return err
	}
	style := chart.Style + pageStyle
	return t.Execute(w, page{r, template.CSS(style), template.JS(pageScript), digest(style), digest(pageScript)})
}

// digest returns the name of an inline style or script in a policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// figure is a picture in two widths, for wide pages and for phones.
type figure struct{ wide, narrow []byte }

// Wide and Narrow return elements in which package chart has escaped all text.
func (f figure) Wide() template.HTML   { return template.HTML(f.wide) }
func (f figure) Narrow() template.HTML { return template.HTML(f.narrow) }

// Drawing is a picture with its captions.
type Drawing struct {
	Name    string // of its file, without the extension
	Caption string
	Picture Picture
	Folded  bool // collapsed at first
}

// drawn returns the available pictures of a study, a place, the engines, paths or a curve.
func drawn(of any) (all []Drawing) {
	add := func(name, caption string, p Picture, folded bool) {
		if p != nil {
			all = append(all, Drawing{name, caption, p, folded})
		}
	}
	switch of := of.(type) {
	case *Study:
		add("time-over-rtt",
			"Mean time per answer over round trips; bands: 95% intervals, by bootstrap over questions.",
			of.overRTT(), false)
	case *Place:
		add("time", "Mean time per answer; lines: 95% intervals, by bootstrap over questions.", of.times(), false)
		add("waits", "Histogram of the time that an answer was held up by waiting for the large model.",
			of.waits(), false)
		add("bytes", "Payload per answer, up and down.", of.bytes(), false)
		for _, m := range of.Modes {
			add("waterfall-"+m.Label, "One answer of "+m.Label+", from its beginning to its end.", m.waterfall(), true)
		}
	case []Engine:
		add("engine", "Tokens per second; lines: from the least to the most of the samples.", engines(of), false)
	case []Path:
		add("link", "Medians, with lines to the 99th percentiles, beside what arithmetic says.", paths(of), false)
	case *Curves:
		add("accuracy", "Bands: Wilson's 95% intervals.", of.picture(), false)
	}
	return all
}

// Pictures returns those of the whole page, with unique names that are valid as file names.
func (r *Report) Pictures() (all []Drawing) {
	add := func(prefix string, of any) {
		for _, d := range drawn(of) {
			d.Name = fileName(prefix + d.Name)
			if slices.ContainsFunc(all, func(o Drawing) bool { return o.Name == d.Name }) {
				d.Name = fmt.Sprintf("%s-%d", d.Name, len(all))
			}
			all = append(all, d)
		}
	}
	for i, s := range r.Studies {
		prefix := fmt.Sprintf("study%d-", i+1)
		add(prefix, s)
		for k, p := range s.Cells {
			add(fmt.Sprintf("%scell%d-", prefix, k+1), p)
		}
	}
	add("", r.Engines)
	add("", r.Paths)
	for i, c := range r.Curves {
		add(fmt.Sprintf("eval%d-", i+1), c)
	}
	return all
}

// WriteSVG writes the pictures of the page as files to a folder, which it creates if needed, and returns their names.
// It replaces existing files.
func (r *Report) WriteSVG(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, d := range r.Pictures() {
		if err := os.WriteFile(filepath.Join(dir, d.Name+".svg"), d.Picture.SVG(), 0o644); err != nil {
			return names, err
		}
		names = append(names, d.Name+".svg")
	}
	return names, nil
}

// fileName removes characters that are not allowed in file names.
func fileName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, text[:min(len(text), 80)])
}

// percent formats a share, "" if there is none.
func percent(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**x)
}

// value formats a figure, "" if there is none.
func value(x *float64) string {
	if x == nil {
		return ""
	}
	return chart.Number(*x)
}

// types returns the tensor types of a model, those with the most bytes first.
func types(bytes map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(bytes), func(a, b string) int {
		return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b))
	})
	return strings.Join(names, ", ")
}
