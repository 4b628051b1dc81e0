package draft

import "slices"

// preview is the last one that was emitted.
type preview struct {
	pos    int // of the first
	tokens []int32
}

// preview emits the tokens after the tip up to the first open escalation. Verification may still turn them.
func (r *run) preview() {
	if !r.Preview {
		return
	}
	now := preview{pos: len(r.text)}
	for n := r.tip; n.evaluated && !n.open(); {
		n = n.children[0]
		now.tokens = append(now.tokens, n.token)
	}
	before := r.viewed
	r.viewed = now
	if turned := r.turned(before); turned > 0 || now.pos != before.pos && len(before.tokens) > 0 ||
		!slices.Equal(now.tokens, before.tokens) {
		r.tell(Event{Preview: &Preview{Pos: now.pos, Tokens: now.tokens, Turned: turned}})
	}
}

// turned counts the tokens of a preview that text and preview now contradict.
func (r *run) turned(before preview) int {
	for i, t := range before.tokens {
		pos := before.pos + i
		var now int32 = -1
		if pos < len(r.text) {
			now = r.text[pos]
		} else if j := pos - r.viewed.pos; j < len(r.viewed.tokens) {
			now = r.viewed.tokens[j]
		}
		if now != t {
			return len(before.tokens) - i
		}
	}
	return 0
}
