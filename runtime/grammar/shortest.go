package grammar

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// layers is the number of lengths of a state in a rule that counts: with 0, 1, 2, and 3 missing repetitions. Each
// further repetition takes as many bytes as the third one.
const layers = 4

// endless is the length if there is no end; larger lengths count as endless.
const endless = math.MaxInt32

// shortestEnd is the shortest way, in bytes, to end a rule from a state with a number of missing repetitions.
type shortestEnd struct {
	bytes int32 // endless: impossible
	by    int32 // the step to take: an index of arcs, jumps and calls, one after the other; -1: the end is there
	known bool  // bytes is final
}

// computeShortestEnds computes the shortest ends of all states by Knuth's generalization of Dijkstra's algorithm (D. E.
// Knuth, A Generalization of Dijkstra's Algorithm, 1977): the smallest length that is not final becomes final.
func (g *Grammar) computeShortestEnds() {
	g.ends = make([][]shortestEnd, len(g.states))
	users := g.predecessorStates()
	var open queue
	for i := range g.states {
		s := &g.states[i]
		of := make([]shortestEnd, 1+min(g.bounds[s.bounds].Min, layers-1))
		for k := range of {
			of[k].bytes = endless
			if s.accept {
				of[k] = shortestEnd{0, -1, false}
				open = append(open, candidate{0, int32(i), int32(k)})
			}
		}
		g.ends[i] = of
	}
	heap.Init(&open)
	for len(open) > 0 {
		e := heap.Pop(&open).(candidate)
		of := &g.ends[e.at][e.missing]
		if of.known || of.bytes != e.bytes {
			continue
		}
		of.known = true
		for _, i := range users[e.at] {
			g.improveEnds(i, &open)
		}
	}
}

// improveEnds looks for shorter ends of a state, through ends that are final.
func (g *Grammar) improveEnds(at int32, open *queue) {
	for k := range g.ends[at] {
		of := &g.ends[at][k]
		if of.known {
			continue
		}
		if bytes, by := g.bestStep(at, int32(k)); bytes < of.bytes {
			of.bytes, of.by = bytes, by
			heap.Push(open, candidate{bytes, at, int32(k)})
		}
	}
}

// bestStep returns the length of the shortest end of a state through ends that are final, and the step to it.
func (g *Grammar) bestStep(at, missing int32) (bytes, by int32) {
	s, step := &g.states[at], int32(0)
	bytes = endless
	try := func(n int32) {
		if n < bytes {
			bytes, by = n, step
		}
		step++
	}
	for _, a := range s.arcs {
		try(saturatingSum(1, g.bytesAfterStep(at, missing, a.op, a.to)))
	}
	for _, j := range s.jumps {
		try(g.bytesAfterStep(at, missing, j.op, j.to))
	}
	for _, c := range s.calls {
		called := g.bytesToEnd(c.start, g.bounds[g.states[c.start].bounds].Min)
		try(saturatingSum(called, g.bytesAfterStep(at, missing, keep, c.back)))
	}
	return bytes, by
}

func (g *Grammar) bytesAfterStep(from, missing int32, o op, to int32) int32 {
	missing, ok := g.missingAfterStep(from, missing, o, to)
	if !ok {
		return endless
	}
	return g.bytesToEnd(to, missing)
}

// missingAfterStep returns the number of missing repetitions after a step, and whether the step is possible.
func (g *Grammar) missingAfterStep(from, missing int32, o op, to int32) (int32, bool) {
	f, t := g.states[from].bounds, g.states[to].bounds
	switch {
	case o == count:
		missing = max(0, missing-1)
	case o == enough && missing > 0:
		return 0, false
	}
	if f != t {
		missing = g.bounds[t].Min // a new count begins
	}
	return missing, true
}

// bytesToEnd returns the shortest end of a state with a number of missing repetitions; endless until it is final.
func (g *Grammar) bytesToEnd(at, missing int32) int32 {
	of := g.ends[at]
	last := int32(len(of)) - 1
	if !of[min(missing, last)].known {
		return endless
	}
	if missing <= last {
		return of[missing].bytes
	}
	if !of[last-1].known {
		return endless
	}
	more := int64(missing-last) * int64(of[last].bytes-of[last-1].bytes)
	return int32(min(int64(of[last].bytes)+more, endless))
}

func saturatingSum(a, b int32) int32 { return int32(min(int64(a)+int64(b), endless)) }

// Least returns the minimum number of bytes that complete a text to a whole value; 0 if it is one.
func (g *Grammar) Least(s *State) int {
	if s.done {
		return 0
	}
	least := int32(endless)
	for _, t := range s.threads {
		least = min(least, g.bytesToFinish(t))
	}
	return int(least)
}

// bytesToFinish returns the minimum number of bytes from the place of a thread to the end of the text.
func (g *Grammar) bytesToFinish(t thread) int32 {
	n := g.bytesToEnd(t.at, g.missingRepetitions(t.at, t.n))
	for f := t.up; f != nil; f = f.up {
		n = saturatingSum(n, g.bytesToEnd(f.back, g.missingRepetitions(f.back, f.n)))
	}
	return n
}

func (g *Grammar) missingRepetitions(at, n int32) int32 {
	return max(0, g.bounds[g.states[at].bounds].Min-n)
}

// Shortest returns the shortest text that completes a text to a whole value; none if it is one.
func (g *Grammar) Shortest(s *State) (text []byte) {
	if s.done || len(s.threads) == 0 {
		return nil
	}
	best := slices.MinFunc(s.threads, func(a, b thread) int {
		return cmp.Compare(g.bytesToFinish(a), g.bytesToFinish(b))
	})
	here := countedState{best.at, g.missingRepetitions(best.at, best.n)}
	var back []countedState // the outermost first
	for f := best.up; f != nil; f = f.up {
		back = append(back, countedState{f.back, g.missingRepetitions(f.back, f.n)})
	}
	slices.Reverse(back)
	for {
		st, of := &g.states[here.at], g.ends[here.at]
		by := int(of[min(int(here.missing), len(of)-1)].by)
		switch {
		case by < 0 && len(back) == 0:
			return text
		case by < 0:
			here, back = back[len(back)-1], back[:len(back)-1]
		case by < len(st.arcs):
			a := st.arcs[by]
			text = append(text, a.lo)
			here = g.countedAfterStep(here, a.op, a.to)
		case by < len(st.arcs)+len(st.jumps):
			j := st.jumps[by-len(st.arcs)]
			here = g.countedAfterStep(here, j.op, j.to)
		default:
			c := st.calls[by-len(st.arcs)-len(st.jumps)]
			back = append(back, g.countedAfterStep(here, keep, c.back))
			here = countedState{c.start, g.bounds[g.states[c.start].bounds].Min}
		}
	}
}

// countedState is a state with a number of missing repetitions.
type countedState struct{ at, missing int32 }

func (g *Grammar) countedAfterStep(s countedState, o op, to int32) countedState {
	missing, _ := g.missingAfterStep(s.at, s.missing, o, to)
	return countedState{to, missing}
}

// candidate is an end of a rule that may be the shortest one.
type candidate struct{ bytes, at, missing int32 }

// queue is a heap of them, the shortest first.
type queue []candidate

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].bytes < q[j].bytes }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
