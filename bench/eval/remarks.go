package eval

import (
	"fmt"
	"strings"
)

// Remarks returns what a reader should know before trusting the figures, for a context of the given number of tokens.
func (r *Report) Remarks(context int) (all []string) {
	var chance []string
	for _, run := range r.Runs {
		if run.AtChance != nil && *run.AtChance {
			chance = append(chance, run.Name())
		}
	}
	if len(chance) > 0 {
		all = append(all, fmt.Sprintf("Guessing among the options would be right for %.1f%% of the questions. "+
			"That is within the interval of: %s. "+
			"These answers are no better than chance, as far as this number of questions can show.",
			100*(*r.Runs[0].Chance), strings.Join(chance, ", ")))
	}
	if low := r.belowChance(); len(low) > 0 {
		all = append(all, fmt.Sprintf("Below guessing among the options (%.1f%%) are: %s. "+
			"These are no better than chance, either: answers without a choice count as not right.",
			100*(*r.Runs[0].Chance), strings.Join(low, ", ")))
	}
	if r.NoRoom > 0 {
		all = append(all, fmt.Sprintf("Questions that do not fit the context of %d tokens: %d. "+
			"They are counted as silent.", context, r.NoRoom))
	}
	if r.Questions < r.Asked {
		all = append(all, fmt.Sprintf("%d of %d questions are answered in all runs; the figures are of these.",
			r.Questions, r.Asked))
	}
	return all
}

// belowChance returns the runs with an interval below chance.
func (r *Report) belowChance() (all []string) {
	for _, run := range r.Runs {
		if run.Chance != nil && *run.AccuracyHigh < *run.Chance {
			all = append(all, run.Name())
		}
	}
	return all
}
