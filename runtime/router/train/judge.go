package train

import (
	"sync"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Judge returns the verdicts of a network on positions with labels, in order. The network takes hidden states of the
// source's width.
func Judge(src Source, rows []int, n *router.Net, threads int) []router.Verdict {
	all := make([]router.Verdict, len(rows))
	var workers sync.WaitGroup
	for w := range max(threads, 1) {
		workers.Go(func() {
			h := make([]float32, src.Width())
			for k := w; k < len(rows); k += max(threads, 1) {
				src.Hidden(h, rows[k])
				margin, certainty := src.Head(rows[k])
				all[k] = router.Verdict{Confidence: n.Of(h, margin, certainty), Stands: src.Label(rows[k]).mayStand()}
			}
		})
	}
	workers.Wait()
	return all
}

// JudgeHead returns the verdicts of the policies margin and entropy on positions.
func JudgeHead(src Source, rows []int) (margin, entropy []router.Verdict) {
	for _, i := range rows {
		m, c := src.Head(i)
		stands := src.Label(i).mayStand()
		margin = append(margin, router.Verdict{Confidence: m, Stands: stands})
		entropy = append(entropy, router.Verdict{Confidence: c, Stands: stands})
	}
	return margin, entropy
}

// Labelled returns the positions of a source that have labels, in order.
func Labelled(src Source) (rows []int) {
	for i := range src.Len() {
		if src.Label(i) != Unlabelled {
			rows = append(rows, i)
		}
	}
	return rows
}
