package grammar

import "slices"

// pruneDeadStates removes states and transitions that lead to no end of a value, and reports whether the start leads to
// one.
//
// Counts do not matter: a loop can repeat as often as its count requires, and the bounds of a count are never empty.
func (g *Grammar) pruneDeadStates() bool {
	live := g.liveStates()
	if !live[g.start] {
		return false
	}
	for i := range g.states {
		s := &g.states[i]
		s.arcs = slices.DeleteFunc(s.arcs, func(a arc) bool { return !live[a.to] })
		s.jumps = slices.DeleteFunc(s.jumps, func(j jump) bool { return !live[j.to] })
		s.calls = slices.DeleteFunc(s.calls, func(c call) bool { return !live[c.start] || !live[c.back] })
		sortArcs(s.arcs)
	}
	return true
}

func (g *Grammar) liveStates() []bool {
	live := make([]bool, len(g.states))
	users := g.predecessorStates() // the users of a live state may be live
	var open []int32
	for i := range g.states {
		if g.states[i].accept {
			live[i] = true
			open = append(open, int32(i))
		}
	}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for _, i := range users[at] {
			if !live[i] && g.leadsToLive(i, live) {
				live[i] = true
				open = append(open, i)
			}
		}
	}
	return live
}

// predecessorStates returns, for each state, the states that lead to it: by an arc, a jump, or a call that begins or
// returns there.
func (g *Grammar) predecessorStates() [][]int32 {
	users := make([][]int32, len(g.states))
	for i := range g.states {
		s := &g.states[i]
		for _, a := range s.arcs {
			users[a.to] = append(users[a.to], int32(i))
		}
		for _, j := range s.jumps {
			users[j.to] = append(users[j.to], int32(i))
		}
		for _, c := range s.calls {
			users[c.start], users[c.back] = append(users[c.start], int32(i)), append(users[c.back], int32(i))
		}
	}
	return users
}

func (g *Grammar) leadsToLive(i int32, live []bool) bool {
	s := &g.states[i]
	return slices.ContainsFunc(s.arcs, func(a arc) bool { return live[a.to] }) ||
		slices.ContainsFunc(s.jumps, func(j jump) bool { return live[j.to] }) ||
		slices.ContainsFunc(s.calls, func(c call) bool { return live[c.start] && live[c.back] })
}
