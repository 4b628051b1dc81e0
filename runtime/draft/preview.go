package draft

import "slices"

func (r *decodeRun) emitPreview() {
	if !r.Preview {
		return
	}
	now := Preview{Pos: len(r.text)}
	for n := r.tip; n.evaluated && !n.hasOpenEscalation(); {
		n = n.children[0]
		now.Tokens = append(now.Tokens, n.token)
	}
	before := r.viewed
	r.viewed = now
	now.Turned = r.countContradicted(before)
	if now.Turned > 0 || now.Pos != before.Pos && len(before.Tokens) > 0 || !slices.Equal(now.Tokens, before.Tokens) {
		r.emitEvent(Event{Preview: &now})
	}
}

func (r *decodeRun) countContradicted(before Preview) int {
	for i, t := range before.Tokens {
		pos := before.Pos + i
		var now int32 = -1
		if pos < len(r.text) {
			now = r.text[pos]
		} else if j := pos - r.viewed.Pos; j < len(r.viewed.Tokens) {
			now = r.viewed.Tokens[j]
		}
		if now != t {
			return len(before.Tokens) - i
		}
	}
	return 0
}
