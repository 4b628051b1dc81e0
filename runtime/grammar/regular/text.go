package regular

// Unquote returns the strings of a set, which are in JSON's spelling, as plain texts: without quotes and escapes.
func (m *Maker) Unquote(d *Set) (*Set, error) {
	if err := m.Spend(len(d.Arcs)); err != nil || d.Empty() {
		return new(Set), err
	}
	begin, _ := d.nextState(0, '"', '"')
	texts := &Set{Arcs: make([][]Arc, len(d.Arcs)), End: make([]bool, len(d.Arcs))}
	for i := range d.Arcs {
		at := int32(i)
		if i == 0 { // texts begin at state 0, to which no arc of a string leads
			at = begin
		}
		texts.Arcs[i] = d.unescapedArcs(at)
		end, _ := d.nextState(at, '"', '"')
		texts.End[i] = end >= 0
	}
	return texts.trimDeadStates(), nil
}

// unescapedArcs returns the arcs from a state within a string, with one for each character that is escaped.
func (d *Set) unescapedArcs(at int32) (arcs []Arc) {
	for _, x := range d.Arcs[at] {
		if x.Lo != '"' && x.Lo != '\\' {
			arcs = append(arcs, x)
		}
	}
	for c := range rune('\\' + 1) {
		escape := escapeRune(c)
		if to := d.follow(at, escape); escape != "" && to >= 0 {
			arcs = append(arcs, Arc{byte(c), byte(c), to})
		}
	}
	return arcs
}

// Before returns the texts of a set, each followed by another text.
func (m *Maker) Before(d *Set, after string) (*Set, error) {
	a := newNFA()
	for len(a.states) < len(d.Arcs) {
		a.addState()
	}
	first := a.addState()
	a.markAccepting(a.addText(first, after))
	for i, arcs := range d.Arcs {
		for _, x := range arcs {
			a.addArc(int32(i), x.Lo, x.Hi, x.To)
		}
		if d.End[i] {
			a.addJump(int32(i), first)
		}
	}
	return a.determinize(m)
}
