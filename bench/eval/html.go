package eval

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

//go:embed report.gohtml
var reportPage string

// maxPage is the approximate maximum of bytes of answers on a page: phones do not open larger ones.
const maxPage = 16 << 20

// page has the data of the template.
type page struct {
	*Report
	Settings Settings
	About    About
	Quality  string   // what the curve shows: accuracy or agreement
	Colours  []string // names of colours
	Drawings []axes
	Keys     []pageRow // the policies with their colours
	Rows     []pageRow
	Versus   []RunReport // runs that are compared with the models alone
	Twins    int         // questions without two equal options; 0 if there are none
	Remarks  []string
	Left     int             // questions without room for their answers on the page
	Answers  json.RawMessage // pageAnswers
}

// pageRow is one run in the table.
type pageRow struct {
	RunReport
	Colour string
}

// pageAnswers is the input of the page's script.
type pageAnswers struct {
	Runs      []string       `json:"runs"`
	Questions []pageQuestion `json:"questions"`
}

// pageQuestion is a question with its answers, in the order of the runs. Equal answers are included once.
type pageQuestion struct {
	ID      string       `json:"id"`
	Text    string       `json:"text"`
	Key     string       `json:"key"`
	Answers []pageAnswer `json:"answers"`
	Of      []int        `json:"of"` // by run: index in Answers
}

// pageAnswer is an answer as spans of tokens with the same origin and audit.
type pageAnswer struct {
	Verdict string      `json:"verdict"`
	Stop    string      `json:"stop"`
	Tokens  int         `json:"tokens"`
	Cloud   int         `json:"cloud"`
	Spans   [][2]string `json:"spans"` // kind and text; e, c, E if missed, C if needless
}

// WriteHTML writes the report as one self-contained page: curves, tables, and the answers with the origin of each
// token. Texts of models and questions are escaped.
func WriteHTML(w io.Writer, set *task.Set, runs []Run, log *Log, r *Report) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"percent": func(x *float64) string {
			if x == nil {
				return ""
			}
			return fmt.Sprintf("%.1f%%", 100**x)
		},
		"share": func(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) },
		"one":   func(x float64) string { return fmt.Sprintf("%.1f", x) },
		"between": func(i stats.Interval) string {
			if math.IsNaN(i.Value) {
				return ""
			}
			return fmt.Sprintf("%.3f (%.3f to %.3f)", i.Value, i.Low, i.High)
		},
		"p":      func(x float64) string { return fmt.Sprintf("%.2g", x) },
		"minus":  func(m map[string]stats.Interval, of string) stats.Interval { return orNone(m, of) },
		"x":      func(x float64) string { return fmt.Sprintf("%.1f", x) },
		"rivals": rivals,
		"yes": func(b *bool) string {
			switch {
			case b == nil:
				return ""
			case *b:
				return "yes"
			}
			return "no"
		},
	}).Parse(reportPage)
	if err != nil {
		return err
	}
	p := newPage(log, r)
	if p.Answers, p.Left, err = answersOf(set, runs, log); err != nil {
		return err
	}
	return t.Execute(w, p)
}

// newPage returns the page without the answers.
func newPage(log *Log, r *Report) *page {
	p := &page{Report: r, Settings: log.Settings, About: log.About, Quality: "accuracy", Drawings: draw(r)}
	if !r.Graded {
		p.Quality = "agreement with the large model"
	}
	for _, run := range r.Runs {
		row := pageRow{run, colour(run.Policy)}
		p.Rows = append(p.Rows, row)
		if !slices.ContainsFunc(p.Keys, func(k pageRow) bool { return k.Policy == run.Policy }) {
			p.Keys = append(p.Keys, row)
			p.Colours = append(p.Colours, row.Colour[1:])
		}
		if run.Always != nil || run.Never != nil {
			p.Versus = append(p.Versus, run)
		}
		if run.Distinct != nil {
			p.Twins = run.Distinct.Answers
		}
	}
	p.Remarks = r.Remarks(log.Settings.Context)
	return p
}

// orNone returns an interval of a map, or one of NaN.
func orNone(m map[string]stats.Interval, of string) stats.Interval {
	if i, ok := m[of]; ok {
		return i
	}
	return stats.Interval{Value: math.NaN()}
}

// colour returns the name of a policy's colour in the page's style.
func colour(policy string) string {
	if i := slices.Index(router.Policies(), router.Policy(policy)); i >= 0 {
		return fmt.Sprintf("p%d", i)
	}
	return "p9"
}

// answersOf returns the answers for the page, for as many questions as fit, and how many do not fit.
func answersOf(set *task.Set, runs []Run, log *Log) (json.RawMessage, int, error) {
	all, size, left := pageAnswers{Runs: Names(runs), Questions: []pageQuestion{}}, 0, 0
	for _, q := range set.Questions {
		one, err := questionOf(q, runs, log)
		if err != nil {
			return nil, 0, err
		}
		if one == nil {
			continue
		}
		b, err := json.Marshal(one)
		if err != nil {
			return nil, 0, err
		}
		if size += len(b); size > maxPage {
			left++
			continue
		}
		all.Questions = append(all.Questions, *one)
	}
	b, err := json.Marshal(all)
	return b, left, err
}

// questionOf returns a question for the page; nil if an answer is missing.
func questionOf(q task.Question, runs []Run, log *Log) (*pageQuestion, error) {
	one := &pageQuestion{ID: q.ID, Text: q.Text, Key: q.Key}
	first := map[string]int{} // by the content of the answer
	for _, r := range runs {
		a, ok := log.Answer(q.ID, r.Name())
		if !ok {
			return nil, nil
		}
		shown := newPageAnswer(&a)
		like, err := json.Marshal(shown)
		if err != nil {
			return nil, err
		}
		at, known := first[string(like)]
		if !known {
			at = len(one.Answers)
			first[string(like)] = at
			one.Answers = append(one.Answers, shown)
		}
		one.Of = append(one.Of, at)
	}
	return one, nil
}

// newPageAnswer joins consecutive tokens of one kind.
func newPageAnswer(a *Answer) pageAnswer {
	p := pageAnswer{Verdict: a.Verdict, Stop: a.Stop, Tokens: len(a.Tokens), Cloud: a.cloudTokens(),
		Spans: [][2]string{}}
	kinds := []byte(a.Origins)
	for _, i := range a.Missed {
		kinds[i] = 'E'
	}
	for _, i := range a.Needless {
		kinds[i] = 'C'
	}
	for i, piece := range a.Pieces {
		kind := string(kinds[i])
		if n := len(p.Spans); n > 0 && p.Spans[n-1][0] == kind {
			p.Spans[n-1][1] += piece
		} else {
			p.Spans = append(p.Spans, [2]string{kind, piece})
		}
	}
	return p
}
