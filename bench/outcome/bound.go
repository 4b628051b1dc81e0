package outcome

import (
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// setLowerBounds sets a lower bound of the time, for modes that verify every token and draft meanwhile. It is the time
// of the small model alone for each forward pass that a text of this length needs, if each draft is right, and then
// verdict, the wait for the verification of the last token: a round trip and a token of the large model. With tokens
// ahead it is at most the time of the large model's own text, if the mode cloud was measured. It needs the mode local.
func setLowerBounds(all []Report, verdict time.Duration) {
	i := slices.IndexFunc(all, func(r Report) bool { return r.Mode == "local" })
	if i < 0 {
		return
	}
	alone, calls := 0.0, 0
	for _, s := range all[i].Samples {
		alone, calls = alone+result.Rounded(s.Took), calls+s.Passes
	}
	var streamed []Sample
	if i := slices.IndexFunc(all, func(r Report) bool { return r.Mode == "cloud" }); i >= 0 {
		streamed = all[i].Samples
	}
	for k := range all {
		ahead := strings.HasPrefix(all[k].Mode, "verified")
		if !ahead && !strings.HasPrefix(all[k].Mode, "overlapped") {
			continue
		}
		sum := 0.0
		for n, s := range all[k].Samples {
			least := alone/float64(max(1, calls))*float64(min(s.Passes, s.Tokens)) + result.Milliseconds(verdict)
			if ahead && n < len(streamed) && streamed[n].Question == s.Question {
				least = min(least, result.Rounded(streamed[n].Took))
			}
			sum += least
		}
		all[k].Bound = new(sum / float64(all[k].Answers))
	}
}
