package bench

import "slices"

// compare says in the reports how many answers are not those that they are to be: tokens and origins those of the mode
// serial, or with verification and no margin the tokens of the large model alone. What was not measured is not
// compared with. alone is by question what the large model alone says, where no mode does.
func compare(all []ModeReport, modes []Mode, answers [][]answer, alone []answer) {
	find := func(of func(Mode) bool) []answer {
		if i := slices.IndexFunc(modes, of); i >= 0 {
			return answers[i]
		}
		return nil
	}
	serial := find(func(m Mode) bool { return m.kind == routed && !m.pipelined })
	large := find(func(m Mode) bool { return m.kind == cloud })
	if large == nil && alone != nil {
		for _, a := range answers[0] {
			large = append(large, alone[a.question])
		}
	}
	for i, m := range modes {
		if serial != nil && m.AsSerial() {
			n := differing(answers[i], serial, func(a, b answer) bool {
				return slices.Equal(a.ids, b.ids) && slices.Equal(a.origins, b.origins)
			})
			all[i].EqualToSerial, all[i].Differing = new(n == 0), &n
		}
		if large != nil && m.AsCloud() {
			n := differing(answers[i], large, func(a, b answer) bool { return slices.Equal(a.ids, b.ids) })
			all[i].EqualToCloud, all[i].DifferingFromCloud = new(n == 0), &n
		}
	}
}

// differing counts the answers that are not equal.
func differing(got, want []answer, equal func(a, b answer) bool) (n int) {
	for i := range got {
		if !equal(got[i], want[i]) {
			n++
		}
	}
	return n
}
