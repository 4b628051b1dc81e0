package eval

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// evalColumn is a column of the table of runs.
type evalColumn struct {
	name   string
	legend string // "" if the name needs no explanation
	cell   func(eval.RunReport) string
}

// evalColumns returns the columns for a report.
func evalColumns(name string, r *eval.Report) []evalColumn {
	right, legend := "right", "share of the questions with the right answer"
	if task.RunsPrograms(name) {
		right, legend = "pass@1", "share of the questions with a program that passes the tests"
	}
	all := []evalColumn{{"run", "", func(r eval.RunReport) string { return r.Name() }}}
	if r.Graded {
		all = append(all,
			evalColumn{right, legend,
				func(r eval.RunReport) string { return cli.Percent(r.Accuracy) }},
			evalColumn{"interval", "its 95% interval (Wilson)", func(r eval.RunReport) string {
				return fmt.Sprintf("%.1f–%.1f", 100*(*r.AccuracyLow), 100*(*r.AccuracyHigh))
			}},
			evalColumn{"silent", "answers that make no choice, or have no number or program; not right",
				func(r eval.RunReport) string { return fmt.Sprint(*r.Silent) }})
	}
	if slices.ContainsFunc(r.Runs, func(r eval.RunReport) bool { return r.Distinct != nil }) {
		n := r.Runs[0].Distinct.Answers
		all = append(all,
			evalColumn{fmt.Sprintf("of %d", n), fmt.Sprintf("right among the %d without two equal options", n),
				func(r eval.RunReport) string { return cli.Percent(&r.Distinct.Accuracy) }})
	}
	all = append(all,
		evalColumn{"cloud", "share of the tokens that the large model chose", func(r eval.RunReport) string {
			return cli.Percent(&r.EscalatedShare)
		}},
		evalColumn{"asks", "questions to the large model per answer", func(r eval.RunReport) string {
			return fmt.Sprintf("%.1f", r.Asks)
		}},
	)
	if len(r.Dials) > 0 || slices.ContainsFunc(r.Runs, func(r eval.RunReport) bool { return r.Known != nil }) {
		all = append(all,
			evalColumn{"known", "tokens per answer that were known from other answers",
				func(r eval.RunReport) string { return cli.Number(r.Known) }},
			evalColumn{"turned", "the small model's tokens that were replaced, per answer",
				func(r eval.RunReport) string { return cli.Number(r.Turned) }},
			evalColumn{"ahead", "tokens per answer that the large model decoded ahead",
				func(r eval.RunReport) string { return cli.Number(r.CloudAhead) }},
		)
	}
	return append(all,
		evalColumn{"tokens", "per answer", func(r eval.RunReport) string { return fmt.Sprintf("%.1f", r.Tokens) }},
		evalColumn{"ms", "per answer, several at a time", func(r eval.RunReport) string {
			if r.Policy == eval.Oracle {
				return ""
			}
			return fmt.Sprintf("%.0f", r.Milliseconds)
		}},
		evalColumn{"missed", "of the small model's tokens, those where the large one would have chosen another",
			func(r eval.RunReport) string { return cli.Percent(r.Missed) }},
		evalColumn{"needless", "of the large model's tokens, those that the small one would have chosen, too",
			func(r eval.RunReport) string { return cli.Percent(r.Needless) }},
		evalColumn{"agree", "of all tokens, those that are the large model's choice for the text before them",
			func(r eval.RunReport) string {
				if r.Agreement == nil {
					return ""
				}
				return cli.Percent(&r.Agreement.Value)
			}},
	)
}

// printEval prints the tables, their legend, and remarks.
func printEval(w io.Writer, o eval.Options, r *eval.Report) error {
	var b strings.Builder
	s := o.Log.Settings
	fmt.Fprintf(&b, "%s: %d of %d questions, prompts %s, %d worked examples, at most %d tokens an answer\n\n",
		s.Task, r.Questions, r.Asked, s.Prompts, s.Shots, s.MaxTokens)
	columns := evalColumns(s.Task, r)
	t := newTable(&b)
	for _, c := range columns {
		t.cell(c.name)
	}
	for _, run := range r.Runs {
		t.row()
		for _, c := range columns {
			t.cell(c.cell(run))
		}
	}
	t.end()
	b.WriteString("\n")
	for _, c := range columns {
		if c.legend != "" {
			fmt.Fprintf(&b, "%-9s %s\n", c.name, c.legend)
		}
	}
	if last := r.Runs[len(r.Runs)-1]; last.Policy == eval.Oracle {
		fmt.Fprintf(&b, "%-9s always, with questions only for the tokens on which the small model differs\n",
			last.Policy)
	}
	printVersus(&b, r)
	printAreas(&b, r)
	printDials(&b, r)
	for _, line := range r.Remarks(s.Context) {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printVersus prints the comparison of each run with the models alone.
func printVersus(b *strings.Builder, r *eval.Report) {
	if !slices.ContainsFunc(r.Runs, func(r eval.RunReport) bool { return r.Always != nil || r.Never != nil }) {
		return
	}
	b.WriteString("\nAccuracy against the large model alone (always) and the small one alone (never)\n\n")
	t := newTable(b)
	t.cells("run", "of always", "interval", ">= 0.95", "McNemar", "of never", "interval", "McNemar", "gap", "interval")
	for _, run := range r.Runs {
		if run.Always == nil && run.Never == nil {
			continue
		}
		t.row()
		t.cell(run.Name())
		t.versus(run.Always, true)
		t.versus(run.Never, false)
		if run.Gap != nil {
			t.cells(fmt.Sprintf("%.2f", run.Gap.Value), fmt.Sprintf("%.2f to %.2f", run.Gap.Low, run.Gap.High))
		}
	}
	t.end()
	b.WriteString("\nRatios of accuracy, with 95% intervals by the paired bootstrap over questions (percentiles of\n" +
		"2,000 draws); >= 0.95 says whether the low end is; McNemar is the exact two-sided p-value;\n" +
		"gap is the part of the distance from never to always that a run gains.\n")
}

// evalTable is a table with right-aligned numbers.
type evalTable struct {
	*tabwriter.Writer
	line []string
}

func newTable(b io.Writer) *evalTable {
	return &evalTable{Writer: tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)}
}

// cell adds a cell to the row.
func (t *evalTable) cell(text string) { t.line = append(t.line, text) }

// cells adds cells.
func (t *evalTable) cells(text ...string) { t.line = append(t.line, text...) }

// row ends the row.
func (t *evalTable) row() {
	fmt.Fprintln(t.Writer, strings.Join(t.line, "\t"))
	t.line = t.line[:0]
}

// end ends the table. Writing to memory cannot fail.
func (t *evalTable) end() {
	t.row()
	t.Flush()
}

// versus adds the cells of a comparison.
func (t *evalTable) versus(v *eval.Versus, inferior bool) {
	ratio, between, verdict, p := "", "", "", ""
	if v != nil {
		p = fmt.Sprintf("%.2g", v.McNemar)
		if v.Ratio != nil {
			ratio, between = fmt.Sprintf("%.3f", v.Ratio.Value), bounds(*v.Ratio)
			verdict = "no"
			if v.NonInferior != nil && *v.NonInferior {
				verdict = "yes"
			}
		}
	}
	t.cell(ratio)
	t.cell(between)
	if inferior {
		t.cell(verdict)
	}
	t.cell(p)
}

// bounds formats an interval; "" if it is empty.
func bounds(i stats.Interval) string {
	if math.IsNaN(i.Low) {
		return ""
	}
	return fmt.Sprintf("%.3f to %.3f", i.Low, i.High)
}

// printAreas prints the curves of the policies.
func printAreas(b *strings.Builder, r *eval.Report) {
	if len(r.Policies) == 0 {
		return
	}
	what := "Accuracy"
	if !r.Graded {
		what = "Agreement"
	}
	fmt.Fprintf(b, "\n%s over the shares from %.1f%% to %.1f%% from the cloud, as the mean height of each policy's\n"+
		"curve, and at single shares\n\n", what, 100*r.Policies[0].From, 100*r.Policies[0].To)
	t := newTable(b)
	rivals := []string{"random", "margin", "entropy"}
	t.cells("policy", "share", "height", "interval", "over random", "over margin", "over entropy")
	for _, p := range r.Policies {
		t.area(p.Policy, "all", p.Area, p.Minus, rivals)
		for _, at := range p.At {
			t.area(p.Policy, fmt.Sprintf("%.0f%%", 100*at.Share), at.Quality, at.Minus, rivals)
		}
	}
	t.end()
	b.WriteString("\nA curve is straight between the runs of its policy, never and always. Intervals as above; the\n" +
		"differences are of the same questions; if the interval of one is above 0, it is significant.\n")
}

// area adds a row for a policy's quality and its lead over others.
func (t *evalTable) area(policy, share string, v stats.Interval, minus map[string]stats.Interval, rivals []string) {
	t.row()
	t.cell(policy)
	t.cell(share)
	t.cell(fmt.Sprintf("%.3f", v.Value))
	t.cell(bounds(v))
	for _, r := range rivals {
		i, ok := minus[r]
		if !ok || math.IsNaN(i.Value) {
			t.cell("")
			continue
		}
		t.cell(fmt.Sprintf("%+.3f (%+.3f to %+.3f)", i.Value, i.Low, i.High))
	}
}

// printDials prints the curves of verification and answers ahead next to those of the policies alone.
func printDials(b *strings.Builder, r *eval.Report) {
	if len(r.Dials) == 0 {
		return
	}
	what := "Accuracy"
	if !r.Graded {
		what = "Agreement"
	}
	fmt.Fprintf(b, "\n%s against questions per answer: each policy with verification or answers ahead, and alone, "+
		"over the\nquestions per answer that both come to, as the mean height of each curve\n\n", what)
	t := newTable(b)
	t.cells("policy", "verified", "ahead", "from", "to", "height", "interval", "alone", "difference")
	for _, d := range r.Dials {
		t.row()
		verified := "off"
		switch {
		case d.Best:
			verified = "best"
		case d.Verify != nil:
			verified = fmt.Sprint(*d.Verify)
		}
		t.cells(d.Policy, verified, fmt.Sprint(d.Ahead), fmt.Sprintf("%.2f", d.From), fmt.Sprintf("%.2f", d.To),
			fmt.Sprintf("%.3f", d.Area.Value), bounds(d.Area), fmt.Sprintf("%.3f", d.Router.Value),
			fmt.Sprintf("%+.3f (%+.3f to %+.3f)", d.Minus.Value, d.Minus.Low, d.Minus.High))
	}
	t.end()
	b.WriteString("\nA curve is straight between its runs; never with the same verification is one of them. " +
		"The intervals are\n" +
		"of the paired bootstrap over questions; each draw compares over the range that both curves reach in it.\n" +
		"\"best\" is the whole dial, off included: the best of its runs with at most that many questions, " +
		"against the best\nof the policy alone.\n")
}
