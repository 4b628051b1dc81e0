package tokenizer

// shortPiece is the length in bytes up to which a piece is merged by looking for the lowest rule each time. That takes
// quadratic time, but no memory, and is the fastest way for a word.
const shortPiece = 64

// merger merges pieces into tokens. Its arrays serve one piece after the other.
type merger struct {
	t     *Tokenizer
	ids   [shortPiece]int32
	rules [shortPiece]rule
	long  longMerger
}

// merge appends the tokens of piece, which is not empty, to dst: at each step the two neighbours with the lowest rule
// become one, the leftmost ones if several have it.
func (m *merger) merge(dst []int32, piece string) []int32 {
	if len(piece) > shortPiece {
		return m.long.merge(dst, piece, m.t)
	}
	n := len(piece)
	for i := range n {
		m.ids[i] = m.t.byteID[piece[i]]
	}
	ids, rules := m.ids[:n], m.rules[:n-1] // rules[i] is that of ids[i] and ids[i+1]
	for i := range rules {
		rules[i] = m.t.rules.find(ids[i], ids[i+1])
	}
	for len(rules) > 0 {
		at, best := lowest(rules)
		if best == noRule {
			break
		}
		ids[at] = best.id()
		ids = append(ids[:at+1], ids[at+2:]...)
		rules = append(rules[:at], rules[at+1:]...)
		if at > 0 {
			rules[at-1] = m.t.rules.find(ids[at-1], ids[at])
		}
		if at < len(rules) {
			rules[at] = m.t.rules.find(ids[at], ids[at+1])
		}
	}
	return append(dst, ids...)
}

// lowest returns the lowest rule of the lowest rank and the first index that has it.
func lowest(rules []rule) (at int, best rule) {
	best = noRule
	for i, r := range rules {
		if r < best {
			at, best = i, r
		}
	}
	return at, best
}
