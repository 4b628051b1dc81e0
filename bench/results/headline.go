package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// headlineTask is the benchmark of README's first sentence: its answers are the longest.
const headlineTask = task.GSM8K

// addHeadline makes what README shows of the answers to benchmarks: a table with the runs of the judge, those within a
// budget if there are any, and a sentence about one task.
func (m *pageContent) addHeadline(all []*answerSet) {
	var table strings.Builder
	table.WriteString("| task, questions | small alone | large alone | threshold or budget: both, with a judge | " +
		"tokens from the large | gap recovered |\n|---|---|---|---|---|---|\n")
	for _, l := range all {
		small, large := l.modelsAlone()
		if l.Split == "" || small == nil || large == nil {
			continue
		}
		budgeted := slices.ContainsFunc(l.report.Runs, func(r eval.RunReport) bool {
			return r.Policy == string(router.Judged) && r.Budget != nil
		})
		for i := range l.report.Runs {
			r := &l.report.Runs[i]
			if r.Policy != string(router.Judged) || budgeted && r.Budget == nil {
				continue
			}
			fmt.Fprintf(&table, "| %s, %d | %s | %s | %s: %s | %s | %s |\n", l.Title(),
				r.Answers, formatAccuracy(small), formatAccuracy(large), strings.TrimPrefix(r.Name(), "judge "),
				formatAccuracy(r), formatShare(r.Share(r.Cloud)), formatGap(r))
			if l.Task == headlineTask {
				m.texts["headline"] = wrapText(fmt.Sprintf("On %d %s questions of GSM8K, Qwen2.5-Coder-0.5B alone "+
					"answers %s correctly and the 1.5B alone %s; with %s of its tokens from the 1.5B, the 0.5B "+
					"answers %s correctly.", r.Answers, l.Split, formatShare(small.Accuracy.Value),
					formatShare(large.Accuracy.Value), formatShare(r.Share(r.Cloud)), formatShare(r.Accuracy.Value)))
			}
		}
	}
	m.texts["headline-table"] = table.String()
}

// conclusionsText says how many of the tokens that the judge replaces within a budget are the first of a conclusion.
func conclusionsText(all []*answerSet) string {
	var parts []string
	for _, l := range all {
		for _, r := range l.runs {
			if r.Policy != router.Judged || r.Budget == 0 || l.Split == "" {
				continue
			}
			first, replaced := 0, 0
			for _, q := range l.log.Set().Questions {
				if a, ok := l.log.Answer(q.ID, r.Name()); ok {
					first, replaced = first+a.Concluding(), replaced+a.Replaced()
				}
			}
			parts = append(parts, fmt.Sprintf("%d of %s in %s", first, chart.Number(float64(replaced)), l.Task))
		}
	}
	return "Of the tokens that the judge replaces, those after words like \"The answer is\": " +
		strings.Join(parts, ", ") + "."
}

// ruleText says what the rule has right that asks for these tokens and no other; "" if it was not recorded.
func ruleText(all []*answerSet) string {
	var parts []string
	for _, l := range all {
		for i := range l.report.Runs {
			if r := &l.report.Runs[i]; r.Policy == string(eval.Rule) {
				parts = append(parts, fmt.Sprintf("%s of %s %s right with %s of the tokens",
					formatShare(r.Accuracy.Value), l.Task, l.Split, formatShare(r.Share(r.Cloud))))
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " A rule that asks for just these tokens, and that nothing was trained for, has " +
		strings.Join(parts, ", ") + "."
}

func (m *pageContent) addEveryday(l *answerSet) error {
	set := l.log.Set()
	set.Questions = slices.DeleteFunc(set.Questions, func(q task.Question) bool {
		return !strings.HasPrefix(q.ID, "held-out-")
	})
	held := &answerSet{Settings: l.Settings, report: eval.Summarize(set, l.runs, l.log)}
	small, large := held.modelsAlone()
	i := slices.IndexFunc(held.report.Runs, func(r eval.RunReport) bool { return r.Policy == string(router.Verify) })
	if small == nil || large == nil || i < 0 {
		return fmt.Errorf("the everyday questions lack a run of never, always or verify")
	}
	both := &held.report.Runs[i]
	m.texts["everyday"] = wrapText(fmt.Sprintf("Of %d such everyday questions, on which nothing was tuned, the 0.5B "+
		"alone has %d right and the 1.5B %d; together they have %d, with %s of the tokens from the 1.5B", both.Answers,
		*small.Right, *large.Right, *both.Right, formatShare(both.Share(both.Cloud))))
	return nil
}
