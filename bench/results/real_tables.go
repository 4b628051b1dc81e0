package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
)

// judged is the result of eval for one task of the real pair.
type judged struct {
	task      realTask
	record    result.Record // the first one
	runs      []eval.RunReport
	never     *eval.RunReport
	always    *eval.RunReport
	certified *eval.RunReport // the learned policy at the threshold of its certificate
}

// realJudged returns the measured tasks.
func realJudged(root string) (all []judged, err error) {
	for _, t := range realTasks() {
		records, err := measured(root, "real-"+t.name)
		if err != nil {
			return nil, err
		}
		if records == nil {
			continue
		}
		j := judged{task: t, record: records[0], runs: make([]eval.RunReport, len(records))}
		for i := range records {
			if err := records[i].Into(&j.runs[i]); err != nil {
				return nil, err
			}
		}
		for i := range j.runs {
			switch r := &j.runs[i]; {
			case r.Policy == "never":
				j.never = r
			case r.Policy == "always":
				j.always = r
			case r.Policy == "learned" && r.Threshold != nil:
				j.certified = r
			}
		}
		if j.never == nil || j.always == nil || j.certified == nil {
			return nil, fmt.Errorf("real-%s: never, always, or the certified threshold is missing", t.name)
		}
		all = append(all, j)
	}
	return all, nil
}

// realBlocks makes the tables of the real pair, as far as it was measured.
func realBlocks(root string, texts map[string]string) error {
	all, err := realJudged(root)
	if err != nil || len(all) == 0 {
		return err
	}
	var table, policies strings.Builder
	table.WriteString("| task, questions | small alone | large alone | routed | tokens from the large model | " +
		"gap recovered | margin, 7% | entropy, 7% | random, 7% |\n|---|---|---|---|---|---|---|---|---|\n")
	policies.WriteString("| task | share | router | margin | entropy | router less margin | router less entropy |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, j := range all {
		c := j.certified
		fmt.Fprintf(&table, "| %s, %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", j.task.name, c.Answers,
			accuracy(j.never), accuracy(j.always), accuracy(c), share(&c.EscalatedShare), interval(c.Gap, "%.2f"),
			j.at("margin", 0.07), j.at("entropy", 0.07), j.at("random", 0.07))
		j.compared(&policies)
		texts["real-"+j.task.name+"-about"] = about(&j.record.Run)
		if s := sourcesText(&j.record.Run); s != "" {
			texts["real-"+j.task.name+"-sources"] = s
		}
	}
	texts["real-table"], texts["real-policies"] = table.String(), policies.String()
	texts["real-line"] = realLine(&all[0])
	return nil
}

// realLine returns a sentence about the first task.
func realLine(j *judged) string {
	c := j.certified
	return wrapped(fmt.Sprintf("On %d questions of CommonsenseQA, Qwen2.5-Coder-0.5B alone answers %s correctly and "+
		"the 1.5B alone %s; with %s of its tokens from the 1.5B, the 0.5B answers %s correctly.",
		c.Answers, share(j.never.Accuracy), share(j.always.Accuracy), share(&c.EscalatedShare), share(c.Accuracy)))
}

// at returns the accuracy of a policy at a budget, with its actual share of tokens.
func (j *judged) at(policy string, budget float64) string {
	i := slices.IndexFunc(j.runs, func(r eval.RunReport) bool {
		return r.Policy == policy && r.Budget != nil && *r.Budget == budget
	})
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s)", share(j.runs[i].Accuracy), share(&j.runs[i].EscalatedShare))
}

// compared adds the comparison of the policies at single shares.
func (j *judged) compared(b *strings.Builder) {
	curves := map[string]*eval.Area{}
	for i := range j.runs {
		if c := j.runs[i].Curve; c != nil {
			curves[c.Policy] = c
		}
	}
	learned := curves["learned"]
	if learned == nil {
		return
	}
	for _, at := range learned.At {
		if at.Share > 0.07 {
			continue
		}
		quality := func(policy string) string {
			if c := curves[policy]; c != nil {
				for _, a := range c.At {
					if a.Share == at.Share {
						return fmt.Sprintf("%.1f%%", 100*a.Quality.Value)
					}
				}
			}
			return ""
		}
		lead := func(policy string) string {
			i, ok := at.Minus[policy]
			if !ok {
				return ""
			}
			return fmt.Sprintf("%+.1f (%+.1f to %+.1f)", 100*i.Value, 100*i.Low, 100*i.High)
		}
		fmt.Fprintf(b, "| %s | %s%% | %s | %s | %s | %s | %s |\n", j.task.name, chart.Number(100*at.Share),
			quality("learned"), quality("margin"), quality("entropy"), lead("margin"), lead("entropy"))
	}
}

// accuracy formats the accuracy of a run with its interval.
func accuracy(r *eval.RunReport) string {
	return fmt.Sprintf("%.1f%% (%.1f to %.1f)", 100*(*r.Accuracy), 100*(*r.AccuracyLow), 100*(*r.AccuracyHigh))
}

// interval formats a value with its interval; "" for none.
func interval(i *stats.Interval, format string) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", i.Value, i.Low, i.High)
}

// realTimes makes the table of times of the real pair.
func (m *made) realTimes() error {
	all, _, err := modes(m.records)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("| round trip, ms | mode | ms, median | p90 | over small alone (95%) | " +
		"tokens from the large model | bytes up, down per answer of the cloud |\n|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %s | %s | %s |\n", chart.Number(r.Cell.RTT), inWords(r.Mode),
			r.Time.P50, r.Time.P90, over(r.RatioTo), share(r.EscalatedShare), each(r.BytesUp, r.BytesDown))
	}
	m.texts[m.name+"-table"] = b.String()
	return nil
}
