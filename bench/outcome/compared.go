package outcome

import "slices"

// compareAnswers records in the reports how many answers differ from the expected ones: tokens and origins those of the
// mode serial, or with verification and no margin the tokens of the large model alone. Modes that were not measured are
// not compared. alone has the large model's answers by question, for use if no mode has them.
func compareAnswers(all []Report, modes []Mode, answers [][]Answer, alone []Answer) {
	find := func(of func(Mode) bool) []Answer {
		if i := slices.IndexFunc(modes, of); i >= 0 {
			return answers[i]
		}
		return nil
	}
	serial := find(func(m Mode) bool { return m.Kind == Routed && !m.pipelined })
	large := find(func(m Mode) bool { return m.Kind == Cloud })
	if large == nil && alone != nil {
		for _, a := range answers[0] {
			large = append(large, alone[a.Question])
		}
	}
	for i, m := range modes {
		if serial != nil && m.Kind == Routed {
			n := countDiffering(answers[i], serial, func(a, b Answer) bool {
				return slices.Equal(a.IDs, b.IDs) && slices.Equal(a.Origins, b.Origins)
			})
			all[i].Differing, all[i].EqualToSerial = &n, new(n == 0)
		}
		if large != nil && m.AsCloud() {
			n := countDiffering(answers[i], large, func(a, b Answer) bool { return slices.Equal(a.IDs, b.IDs) })
			all[i].Differing = &n
		}
	}
}

func countDiffering(got, want []Answer, equal func(a, b Answer) bool) (n int) {
	for i := range got {
		if !equal(got[i], want[i]) {
			n++
		}
	}
	return n
}
