package draft

import "slices"

// preview is what was told last of the tokens beyond the text.
type preview struct {
	pos    int // of the first
	tokens []int32
}

// preview tells of the tokens behind the tip that follow unless verification turns them: up to the first open
// escalation.
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

// turned counts the tokens of a preview that text and preview contradict by now.
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
