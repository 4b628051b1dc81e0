package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// OfEval returns the report of an evaluation, with its curves and all answers.
func OfEval(r *eval.Report, set *task.Set, runs []eval.Run, log *eval.Log, about result.Run) (*Report, error) {
	settings, err := json.Marshal(log.Settings)
	if err != nil {
		return nil, err
	}
	t, err := fields("Settings", settings)
	if err != nil {
		return nil, err
	}
	one := evalSection(EvalTitle(r, log.Settings), log.Settings.Task, r)
	all := &Report{Title: "eval " + log.Settings.Task, Lines: len(r.Runs), Runs: []result.Run{about},
		Sections: []Section{one, {Title: t.Title, Tables: []*Table{t}}}}
	all.answers, err = answersOf(set, runs, log)
	return all, err
}

// EvalTitle describes an evaluation in a line.
func EvalTitle(r *eval.Report, s eval.Settings) string {
	return fmt.Sprintf("%s: %d of %d questions, prompts %s, at most %d tokens an answer",
		s.Task, r.Questions, r.Asked, s.Prompts, s.MaxTokens)
}

// evalSection returns the tables and curves of an evaluation.
func evalSection(title, name string, r *eval.Report) Section {
	s := Section{Title: title, Tables: EvalTables(name, r)}
	for _, most := range []float64{1, smallShare} {
		if svg := curvesOf(r, most); svg != nil {
			s.Pictures = append(s.Pictures, Picture{Name: fmt.Sprintf("curves-%v", most), SVG: svg,
				Caption: "Bands are 95% intervals. Oracle: the large model's text, as if only the tokens had been " +
					"asked for " +
					"that the small model would not have chosen."})
		}
	}
	return s
}

// EvalTables returns the tables of an evaluation of a task.
func EvalTables(name string, r *eval.Report) []*Table {
	all := []*Table{runTable(name, r)}
	for _, t := range []*Table{versusTable(r), areaTable(r)} {
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

func runTable(name string, r *eval.Report) *Table {
	type run = eval.RunReport
	right, legend := "right", "share of the questions with the right answer"
	if task.RunsPrograms(name) {
		right, legend = "pass@1", "share of the questions with a program that passes the tests"
	}
	mean := func(x *float64) string {
		if x == nil {
			return ""
		}
		return fmt.Sprintf("%.1f", *x)
	}
	t := tableOf("", []column[run]{
		{"run", "", func(r run) string { return r.Name() }},
		{right, legend, func(r run) string { return percent(r.Accuracy) }},
		{"interval", "its 95% interval (Wilson)",
			func(r run) string { return span(r.AccuracyLow, r.AccuracyHigh, percent) }},
		{"silent", "answers that make no choice, or have no number or program; not right", func(r run) string {
			if r.Silent == nil {
				return ""
			}
			return fmt.Sprint(*r.Silent)
		}},
		{"chance", "share that guessing among the options would have right",
			func(r run) string { return percent(r.Chance) }},
		{"cloud", "share of the tokens that the large model chose",
			func(r run) string { return percent(&r.EscalatedShare) }},
		{"asks", "questions to the large model per answer", func(r run) string { return mean(&r.Asks) }},
		{"known", "tokens per answer that were known from other answers", func(r run) string { return mean(r.Known) }},
		{"turned", "the small model's tokens that were replaced, per answer",
			func(r run) string { return mean(r.Turned) }},
		{"ahead", "tokens per answer that the large model decoded ahead",
			func(r run) string { return mean(r.CloudAhead) }},
		{"tokens", "per answer", func(r run) string { return mean(&r.Tokens) }},
		{"ms", "per answer, several at a time", func(r run) string {
			if r.Policy == eval.Oracle {
				return ""
			}
			return fmt.Sprintf("%.0f", r.Milliseconds)
		}},
		{"missed", "of the small model's tokens, those where the large one would have chosen another",
			func(r run) string { return percent(r.Missed) }},
		{"needless", "of the large model's tokens, those that the small one would have chosen, too",
			func(r run) string { return percent(r.Needless) }},
		{"agree", "of all tokens, those that are the large model's choice for the text before them",
			func(r run) string {
				if r.Agreement == nil {
					return ""
				}
				return percent(&r.Agreement.Value)
			}},
	}, r.Runs)
	if n := len(r.Runs); n > 0 && r.Runs[n-1].Policy == eval.Oracle {
		t.Note = fmt.Sprintf("%-9s always, with questions only for the tokens on which the small model differs",
			eval.Oracle)
	}
	return t
}

// versusTable compares each run with the models alone.
func versusTable(r *eval.Report) *Table {
	type run = eval.RunReport
	ratio := func(of func(r run) *eval.Versus) func(run) string {
		return func(r run) string {
			if v := of(r); v != nil && v.Ratio != nil {
				return interval(*v.Ratio)
			}
			return ""
		}
	}
	p := func(of func(r run) *eval.Versus) func(run) string {
		return func(r run) string {
			if v := of(r); v != nil {
				return fmt.Sprintf("%.2g", v.McNemar)
			}
			return ""
		}
	}
	always, never := func(r run) *eval.Versus { return r.Always }, func(r run) *eval.Versus { return r.Never }
	t := tableOf("Accuracy against the large model alone (always) and the small one alone (never)", []column[run]{
		{"run", "", func(r run) string { return r.Name() }},
		{"of always", "ratio of accuracies, with its 95% interval by the paired bootstrap over questions",
			ratio(always)},
		{">= 0.95", "whether the low end of that is", func(r run) string {
			switch {
			case r.Always == nil || r.Always.NonInferior == nil:
				return ""
			case *r.Always.NonInferior:
				return "yes"
			}
			return "no"
		}},
		{"p always", "exact two-sided p-value (McNemar)", p(always)},
		{"of never", "", ratio(never)},
		{"p never", "", p(never)},
		{"gap", "part of the distance from never to always that a run gains", func(r run) string {
			if r.Gap == nil {
				return ""
			}
			return interval(*r.Gap)
		}},
	}, slices.DeleteFunc(slices.Clone(r.Runs), func(r run) bool { return r.Always == nil && r.Never == nil }))
	return t
}

// interval formats a value with its interval, if it has one.
func interval(i stats.Interval) string {
	switch {
	case math.IsNaN(i.Value):
		return ""
	case math.IsNaN(i.Low):
		return fmt.Sprintf("%.3f", i.Value)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", i.Value, i.Low, i.High)
}

// areaTable has the curves of the policies.
func areaTable(r *eval.Report) *Table {
	type height struct {
		policy, share string
		value         stats.Interval
		minus         map[string]stats.Interval
	}
	var rows []height
	for _, p := range r.Policies {
		rows = append(rows, height{p.Policy, "all", p.Area, p.Minus})
		for _, at := range p.At {
			rows = append(rows, height{p.Policy, fmt.Sprintf("%.0f%%", 100*at.Share), at.Quality, at.Minus})
		}
	}
	columns := []column[height]{
		{"policy", "", func(h height) string { return h.policy }},
		{"share", "of the tokens from the large model", func(h height) string { return h.share }},
		{"height", "of the policy's curve: accuracy, or agreement if answers are not graded",
			func(h height) string { return interval(h.value) }},
	}
	for _, rival := range []router.Policy{router.Random, router.Margin, router.Entropy} {
		columns = append(columns, column[height]{"over " + string(rival), "", func(h height) string {
			if i, ok := h.minus[string(rival)]; ok {
				return interval(i)
			}
			return ""
		}})
	}
	t := tableOf("", columns, rows)
	if len(rows) > 0 {
		t.Title = fmt.Sprintf("Height of the policies' curves over the shares from %.1f%% to %.1f%% from the cloud, "+
			"and at "+
			"single shares", 100*r.Policies[0].From, 100*r.Policies[0].To)
		t.Note = "A curve is straight between the runs of its policy, never and always. Intervals: paired bootstrap, " +
			"95%."
	}
	return t
}

// smallShare is the end of the second plot of curves: about the maximum share that one would pay for.
const smallShare = 0.1

// curvesOf returns the plot of quality against the share of tokens from the large model, up to most; nil if there is
// nothing to draw.
func curvesOf(r *eval.Report, most float64) []byte {
	c := chart.Chart{
		Title: fmt.Sprintf("Quality against the share of tokens from the large model, up to %.0f%%", 100*most),
		X:     chart.Axis{Label: "tokens from the large model, %", End: most},
		Y:     chart.Axis{Label: "accuracy, or agreement, %"},
	}
	lines := map[string]*chart.Line{}
	var order []string
	sorted := slices.Clone(r.Runs)
	slices.SortStableFunc(sorted, func(a, b eval.RunReport) int {
		return cmp.Compare(a.EscalatedShare, b.EscalatedShare)
	})
	for _, run := range sorted {
		q, ok := run.Quality()
		level := run.Policy == string(router.Always)
		if !ok || run.EscalatedShare > most && !level {
			continue
		}
		name := run.Policy
		if run.Verify != nil || run.Ahead > 0 {
			name = run.Name()
		}
		l := lines[name]
		if l == nil {
			l = &chart.Line{Name: name, Dots: !level, Dashed: level}
			lines[name], order = l, append(order, name)
		}
		if level { // its share is far from the others
			l.X, l.Y = []float64{0, most}, []float64{q.Value, q.Value}
			continue
		}
		l.X, l.Y = append(l.X, run.EscalatedShare), append(l.Y, q.Value)
		l.Low, l.High = append(l.Low, q.Low), append(l.High, q.High)
	}
	for _, name := range order {
		c.Lines = append(c.Lines, *lines[name])
	}
	if len(c.Lines) == 0 {
		return nil
	}
	return c.SVG()
}
