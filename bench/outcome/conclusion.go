package outcome

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxFailed is the maximum share of requested tokens without an answer. Above it a mode has failed.
const maxFailed = 0.05

// Conclude summarizes in one sentence the benefit of asking the large model for single tokens: how many answers are
// right, how long one takes and how many tokens are the large model's, compared with the small model alone and the
// large one alone, as far as these were measured. It describes the fastest of the modes with the best accuracy, within
// statistical uncertainty. It excludes modes that failed; if all have, it says why. If none was measured it is empty.
func Conclude(all []Report) string {
	var good []Report
	var failed []string
	for _, r := range all {
		if m, err := ParseMode(r.Mode); err != nil || !m.OverLink() {
			continue
		}
		if why := r.failure(find(all, "serial")); why != "" {
			failed = append(failed, r.Mode+" ("+why+")")
			continue
		}
		good = append(good, r)
	}
	switch {
	case len(good) > 0:
		return praise(best(good), find(all, "local"), find(all, "cloud"))
	case len(failed) > 0:
		return "Nothing is won here: no mode that asks the large model succeeded: " + strings.Join(failed, ", ") + "."
	}
	return ""
}

// failure returns why a mode that asks has failed; "" if it has not. serial is the report that its tokens were compared
// with.
func (r *Report) failure(serial *Report) string {
	switch {
	case r.Answers == 0:
		return "no answers"
	case isFalse(r.EqualToSerial) && none(r.Timeouts) && (serial == nil || none(serial.Timeouts)):
		return "its tokens are not those of serial"
	case isFalse(r.EqualToCloud) && none(r.Timeouts) && none(r.Unverified):
		return "its tokens are not those of the large model"
	}
	tokens := float64(r.Answers) * (r.TokensPerAnswer + 1) // including the end token
	if r.Unverified != nil && float64(*r.Unverified) > maxFailed*tokens {
		return fmt.Sprintf("%d tokens without verification", *r.Unverified)
	}
	if r.EscalatedShare == nil || r.Timeouts == nil {
		return "it asked nothing"
	}
	late, came := float64(*r.Timeouts), *r.EscalatedShare*tokens
	switch {
	case late > 0 && late > maxFailed*(late+came):
		return fmt.Sprintf("%d tokens without an answer in time", *r.Timeouts)
	case came == 0:
		return "it asked nothing"
	}
	return ""
}

func isFalse(b *bool) bool { return b != nil && !*b }

func none(n *int) bool { return n == nil || *n == 0 }

// best returns the fastest of the modes with an accuracy not significantly below the best one.
func best(good []Report) Report {
	most := 0.0
	for _, r := range good {
		if r.Accuracy != nil {
			most = max(most, *r.Accuracy)
		}
	}
	var candidates []Report
	for _, r := range good {
		if r.AccuracyHigh == nil || *r.AccuracyHigh >= most {
			candidates = append(candidates, r)
		}
	}
	return slices.MinFunc(candidates, func(a, b Report) int { return cmp.Compare(a.Time.P50, b.Time.P50) })
}

// find returns the report of a mode, nil if there is none with answers.
func find(all []Report, mode string) *Report {
	for i := range all {
		if all[i].Mode == mode && all[i].Answers > 0 {
			return &all[i]
		}
	}
	return nil
}

// praise returns the sentence about a mode. local and cloud may be nil.
func praise(r Report, local, cloud *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "With %s, ", r.Mode)
	if r.Accuracy != nil {
		fmt.Fprintf(&b, "%s of the answers are right%s", whole(*r.Accuracy),
			beside(local, cloud, func(o *Report) string {
				if o.Accuracy == nil {
					return ""
				}
				text := whole(*o.Accuracy)
				if chance(r, *o) {
					text += ", no difference beyond chance"
				}
				return text
			}))
		b.WriteString(", and ")
	}
	fmt.Fprintf(&b, "the median one takes %.0f ms%s", r.Time.P50, beside(local, cloud, func(o *Report) string {
		return against(r.Time.P50, o.Time.P50)
	}))
	fmt.Fprintf(&b, "; %.1f%% of the tokens are the large model's", 100**r.EscalatedShare)
	if cloud != nil {
		b.WriteString(", in place of all")
	}
	b.WriteString(".")
	return b.String()
}

// beside returns the figures of the models alone, in brackets.
func beside(local, cloud *Report, say func(*Report) string) string {
	var all []string
	for _, o := range []struct {
		of   *Report
		name string
	}{{local, "small model alone"}, {cloud, "large model alone"}} {
		if o.of == nil {
			continue
		}
		if text := say(o.of); text != "" {
			all = append(all, o.name+": "+text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// chance reports whether the difference of two accuracies may be due to chance: their intervals overlap.
func chance(a, b Report) bool {
	return a.AccuracyLow != nil && b.AccuracyLow != nil && *a.Accuracy != *b.Accuracy &&
		*a.AccuracyLow <= *b.AccuracyHigh && *b.AccuracyLow <= *a.AccuracyHigh
}

// against describes by how much a time exceeds or undercuts another one.
func against(took, other float64) string {
	text := fmt.Sprintf("%.0f ms", other)
	percent := math.Round(100 * (other/took - 1))
	switch {
	case percent > 0:
		return fmt.Sprintf("%s, %.0f%% more", text, percent)
	case percent < 0:
		return fmt.Sprintf("%s, %.0f%% less", text, -percent)
	}
	return text
}

// whole formats a share in percent.
func whole(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
