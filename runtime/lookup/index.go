// Package lookup guesses what follows in a text from what followed there before: an answer in the words of the
// question, a summary, code that is edited and JSON repeat what they are about. The guesses are evaluated beside the
// token that is due, in one forward call, and what the model itself chooses is kept; so they change how fast a text
// comes and never the text.
//
//   - [Index] finds the last place of a text that went like its end, and what followed there.
//   - [Rate] learns how often such guesses are accepted.
//   - [Cost] learns what another row in a forward call takes.
//   - [Share] says how many guesses are worth their rows.
//
// Nothing here reads a clock or draws at random: the numbers come from outside, and the same ones give the same rows.
package lookup

const (
	// pair is how many tokens a place must have in common with the end of a text to be looked at.
	pair = 2
	// candidates is the most places that are looked at, the latest first: it bounds the time of a search.
	candidates = 64
	// MaxLength is the longest match that is told apart, in tokens.
	MaxLength = 32
)

// Index is a text that can be searched for an earlier place that goes like its end. Its zero value is an empty text.
// It is the match finder of deflate, with pairs of tokens for its hashed bytes: a pair fits into the key of the map,
// so that nothing collides. It takes 8 bytes and at most one entry of the map for each token.
type Index struct {
	text []int32
	last map[uint64]int32 // by pair, the last position at which it ends
	prev []int32          // by position, where the pair that ends there ended before; -1: nowhere
}

// key packs two tokens.
func key(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// Append adds tokens to the text, each in constant time.
func (x *Index) Append(tokens ...int32) {
	if x.last == nil {
		x.last = make(map[uint64]int32)
	}
	for _, t := range tokens {
		at, before := len(x.text), int32(-1)
		x.text = append(x.text, t)
		if at+1 >= pair {
			k := key(x.text[at-1], t)
			if p, ok := x.last[k]; ok {
				before = p
			}
			x.last[k] = int32(at)
		}
		x.prev = append(x.prev, before)
	}
}

// Len is the number of tokens in the text.
func (x *Index) Len() int { return len(x.text) }

// Find looks for the place in the text that has the most tokens in common, backwards, with the end of the text and
// tail behind it; of equals the latest. It returns how many those are, 2 to [MaxLength], and the n tokens that followed
// there. Where they run into the end they go on with themselves, so that a period shorter than n is guessed in full.
// Without such a place it returns 0 and nil. Of the places that share the last two tokens the 64 latest are looked at.
func (x *Index) Find(tail []int32, n int) (length int, next []int32) {
	whole := len(x.text) + len(tail)
	if whole < pair || n <= 0 {
		return 0, nil
	}
	at := func(i int) int32 { // of text, tail and what is guessed
		if i < len(x.text) {
			return x.text[i]
		} else if i < whole {
			return tail[i-len(x.text)]
		}
		return next[i-whole]
	}
	p, ok := x.last[key(at(whole-2), at(whole-1))]
	if ok && int(p) == whole-1 { // the end itself
		p = x.prev[p]
	}
	best := -1
	for tries := candidates; ok && p >= 0 && tries > 0 && length < MaxLength; tries-- {
		same := pair
		for same < MaxLength && same <= int(p) && x.text[int(p)-same] == at(whole-1-same) {
			same++
		}
		if same > length {
			length, best = same, int(p)
		}
		p = x.prev[p]
	}
	if best < 0 {
		return 0, nil
	}
	next = make([]int32, 0, n)
	for i := best + 1; len(next) < n; i++ {
		next = append(next, at(i))
	}
	return length, next
}
