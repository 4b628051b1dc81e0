package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// textSpan is the positions of one text, in order.
type textSpan struct{ from, to int }

// dataSplit holds the positions to learn from and those held back. No prompt is in both.
type dataSplit struct {
	train   []textSpan // of texts, in the order of the source
	prompts int        // of these
	heldOut HeldOut
}

// HoldOut returns the positions of a source that [Train] holds back with the same seed. More texts for the
// same prompts do not move a prompt to the other part.
func HoldOut(src Source, seed uint64) (HeldOut, error) {
	p, err := splitPrompts(src, share, seed)
	if err != nil {
		return HeldOut{}, err
	}
	return p.heldOut, nil
}

// splitPrompts holds back a share of the prompts with labels: those with the smallest hashes of their numbers.
func splitPrompts(src Source, share float64, seed uint64) (*dataSplit, error) {
	texts := splitTexts(src)
	var prompts []int
	for _, s := range texts {
		if hasLabels(src, s) {
			prompts = append(prompts, src.Prompt(s.from))
		}
	}
	slices.Sort(prompts)
	prompts = slices.Compact(prompts)
	switch len(prompts) {
	case 0:
		return nil, errors.New("no position has a label: collect traces with the label that is asked for")
	case 1:
		return nil, errors.New("all labels are of one prompt, and none can be held back: collect more prompts")
	}
	slices.SortFunc(prompts, func(a, b int) int {
		return cmp.Or(cmp.Compare(hashPrompt(seed, a), hashPrompt(seed, b)), cmp.Compare(a, b))
	})
	n := min(max(1, int(math.Round(share*float64(len(prompts))))), len(prompts)-1)
	held := map[int]bool{}
	for _, p := range prompts[:n] {
		held[p] = true
	}
	p := &dataSplit{prompts: len(prompts) - n, heldOut: HeldOut{Prompts: n}}
	for _, s := range texts {
		if !held[src.Prompt(s.from)] {
			p.train = append(p.train, s)
			continue
		}
		for i := s.from; i < s.to; i++ {
			if src.Label(i) != Unlabelled {
				p.heldOut.Rows = append(p.heldOut.Rows, i)
			}
		}
	}
	return p, nil
}

func splitTexts(src Source) (all []textSpan) {
	for i := range src.Len() {
		if i == 0 || src.Prompt(i) != src.Prompt(i-1) {
			all = append(all, textSpan{i, i})
		}
		all[len(all)-1].to++
	}
	return all
}

func hasLabels(src Source, s textSpan) bool {
	for i := s.from; i < s.to; i++ {
		if src.Label(i) != Unlabelled {
			return true
		}
	}
	return false
}

// countLabels returns the number of positions of the texts with each label, and an error if all labels are equal.
func countLabels(src Source, texts []textSpan) (keep, escalate int, err error) {
	for _, s := range texts {
		for i := s.from; i < s.to; i++ {
			switch src.Label(i) {
			case Keep, Spoil:
				keep++
			case Escalate:
				escalate++
			}
		}
	}
	if keep == 0 || escalate == 0 {
		return 0, 0, fmt.Errorf("of the positions to learn from %d may stand and %d may not: "+
			"there is nothing to tell apart; collect more prompts", keep, escalate)
	}
	return keep, escalate, nil
}

func hashPrompt(seed uint64, n int) uint64 { return router.Draw(seed, uint64(n)) }
