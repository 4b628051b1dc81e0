package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

//go:embed page.gohtml
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// WriteHTML writes the report as one self-contained page. Its content security policy only allows its own styles and
// script, by their hashes, and no address.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"bytes":  func(n int64) string { return formatBytes(float64(n)) },
		"number": chart.Number, "short": shortHash, "model": modelName, "plural": formatPlural, "digest": contentHash,
		"svg": func(p Picture) template.HTML { return template.HTML(p.SVG) }, // package chart has escaped all text
	}).Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		*Report
		Style   template.CSS
		Script  template.JS
		Hashes  []string // of the styles of the page and of its pictures
		Answers *pageAnswers
	}{r, template.CSS(pageStyle), template.JS(pageScript),
		[]string{contentHash(pageStyle), contentHash("\n" + chart.Style)}, r.answers})
}

// contentHash returns the name of an inline style or script in a policy.
func contentHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
}
