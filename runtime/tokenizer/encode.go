package tokenizer

import "math"

// maxPiece is the longest piece in bytes: 2 GiB without a break are cut, for positions are 32 bits wide.
const maxPiece = math.MaxInt32

// Encode returns the ids of text. It adds no BOS. If parseSpecial, control tokens such as <|im_start|> are recognised in
// text; otherwise their spelling is text like any other, which is what text by a user must be encoded with.
// User-defined tokens such as <tool_call> are recognised either way.
//
// Any text has ids, also one that is not UTF-8: what cannot be read is encoded as U+FFFD. The time taken is
// O(n log n) for a text of n bytes, whatever it holds.
func (t *Tokenizer) Encode(text string, parseSpecial bool) []int32 {
	if text == "" {
		return nil
	}
	m := merger{t: t}
	ids := make([]int32, 0, len(text)/4+8)
	for _, part := range t.partition(text, parseSpecial) {
		if part.id >= 0 {
			ids = append(ids, part.id)
			continue
		}
		for rest := wellFormed(part.text); rest != ""; {
			n := min(pieceLen(rest), maxPiece)
			ids = m.merge(ids, rest[:n])
			rest = rest[n:]
		}
	}
	return ids
}
