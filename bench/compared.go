package bench

import (
	"context"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// cloudAlone is the name of the large model alone without a network: what modes are compared with where the mode cloud
// is not measured.
const cloudAlone = "cloud"

// needsReference reports whether there is a mode whose answers are to be those of the large model alone, and none that
// measures these.
func needsReference(modes []Mode) bool {
	return slices.ContainsFunc(modes, Mode.AsCloud) &&
		!slices.ContainsFunc(modes, func(m Mode) bool { return m.kind == cloud })
}

// alone is what the large model itself says.
func (b *routing) alone(ctx context.Context, prompt []int32) (ids []int32, err error) {
	s, err := b.Large.NewSession()
	if err != nil {
		return nil, err
	}
	for t, err := range s.Generate(ctx, prompt, terms.Settings{MaxTokens: b.MaxTokens, Lookup: -1}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, t.ID)
	}
	return ids, nil
}

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
