package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// OfEval returns the report of an evaluation, with its curves.
func OfEval(r *eval.Report, s eval.Settings, about record.Run) (*Report, error) {
	all, err := Of(r.Runs, about)
	if err != nil {
		return nil, err
	}
	all.Title = "eval " + s.Task
	all.Sections[0].Title = fmt.Sprintf("%s: %d of %d questions, prompts %s, %d worked examples, at most %d "+
		"tokens an answer", s.Task, r.Questions, r.Asked, s.Prompts, s.Shots, s.MaxTokens)
	settings, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	line, err := decodeRow(settings)
	all.Sections = append(all.Sections, Section{Title: "Settings", Tables: []*Table{fieldTable(line)}})
	return all, err
}

// AddAnswers adds all answers to the page of an evaluation.
func (r *Report) AddAnswers(set *task.Set, runs []eval.Run, log *eval.Log) (err error) {
	r.answers, err = collectAnswers(set, runs, log)
	return err
}

func evalSection(records []*result.Record, rows []row) (s Section, err error) {
	runs := make([]eval.RunReport, len(records))
	var versus, curves []row
	seen := map[string]bool{}
	for i, one := range records {
		if err := one.Into(&runs[i]); err != nil {
			return s, err
		}
		r, run := rows[i], &runs[i]
		r["name"], r["asked"], r["replaced"] = run.Name(), float64(run.Asked()), float64(run.Replaced())
		if len(run.Versus) > 0 {
			versus = append(versus, versusRow(r, run))
		}
		if len(run.Curve) > 0 && !seen[run.Policy] {
			seen[run.Policy] = true
			curves = append(curves, curveRows(r)...)
		}
	}
	s = Section{Title: "Accuracy: " + records[0].Run.Command, Tables: []*Table{buildTable("", runColumns(), rows)}}
	if runs[len(runs)-1].Policy == eval.Oracle {
		s.Tables[0].Note = "oracle    always, with questions only for the tokens on which the small model differs"
	}
	if len(versus) > 0 {
		s.Tables = append(s.Tables, buildTable("Accuracy against the large model alone (always) and the small one "+
			"alone (never)", versusColumns(), versus))
	}
	if len(curves) > 0 {
		t := buildTable("Height of the policies' curves at single shares from the cloud", curveColumns(), curves)
		t.Note = "Curves are straight between the runs of a policy, never and always. Intervals: paired bootstrap, 95%."
		s.Tables = append(s.Tables, t)
	}
	for _, end := range []float64{1, smallShare} {
		if svg := plotCurves(runs, end); svg != nil {
			s.Pictures = append(s.Pictures, Picture{Name: fmt.Sprintf("curves-%.0f", 100*end), SVG: svg,
				Caption: "Bands are 95% intervals. Oracle: the large model's text, as if only the tokens had been " +
					"asked for that the small model would not have chosen."})
		}
	}
	return s, nil
}

// versusRow completes the row of a run with what its comparisons test.
func versusRow(r row, run *eval.RunReport) row {
	p := map[string]any{}
	for policy, v := range run.Versus {
		if p[string(policy)] = v.McNemar(); policy == router.Always && v.Ratio != nil {
			r["non_inferior"] = v.NonInferior()
		}
	}
	r["p"] = p
	return r
}

func curveRows(r row) (all []row) {
	at, _ := r["curve"].([]any)
	for _, v := range at {
		if one, ok := v.(map[string]any); ok {
			one["policy"] = r["policy"]
			all = append(all, one)
		}
	}
	return all
}

// smallShare is the end of the second plot of curves: about the maximum share that one would pay for.
const smallShare = 0.1

// plotCurves returns the plot of quality against the share of tokens from the large model, up to an end; nil if there
// is nothing to draw.
func plotCurves(runs []eval.RunReport, end float64) []byte {
	c := chart.Chart{
		Title: fmt.Sprintf("Quality against the share of tokens from the large model, up to %.0f%%", 100*end),
		X:     chart.Axis{Label: "tokens from the large model, %", End: end},
		Y:     chart.Axis{Label: "accuracy, or agreement, %"},
	}
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b eval.RunReport) int {
		return cmp.Compare(a.Share(a.Cloud), b.Share(b.Cloud))
	})
	for _, run := range sorted {
		q, ok := run.Quality()
		share := run.Share(run.Cloud)
		level := run.Policy == string(router.Always)
		if !ok || share > end && !level {
			continue
		}
		name := run.Policy
		if run.Verify != nil {
			name += " verified" // a line over the margins
		}
		if level { // its share is far from the others
			c.Lines = append(c.Lines, chart.Line{Name: name, Dashed: true, X: []float64{0, end},
				Y: []float64{q.Value, q.Value}})
			continue
		}
		i := slices.IndexFunc(c.Lines, func(l chart.Line) bool { return l.Name == name })
		if i < 0 {
			i = len(c.Lines)
			c.Lines = append(c.Lines, chart.Line{Name: name, Dots: true})
		}
		l := &c.Lines[i]
		l.X, l.Y = append(l.X, share), append(l.Y, q.Value)
		l.Low, l.High = append(l.Low, q.Low), append(l.High, q.High)
	}
	if len(c.Lines) == 0 {
		return nil
	}
	return c.SVG()
}
