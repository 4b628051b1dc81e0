// Package lookup guesses the tokens that follow in a text from earlier places in the same text. Answers in the words of
// the question, summaries, edited code and JSON repeat what they are about. The guesses are evaluated together with the
// next token, in one forward call, and a guess is kept only if the model itself chooses it. So guesses change the speed
// of a text and never the text.
//
//   - [Index] finds the last place of a text that ends like the text does now, and what followed there.
//   - [Rate] estimates how often such guesses are accepted.
//   - [Cost] estimates the time of another row in a forward call.
//   - [Share] computes how many guesses are worth their rows.
//
// The package reads no clock and draws no random numbers: the caller passes in all times, and the same times give the
// same rows.
package lookup

const (
	// pair is the minimum number of tokens that a place must have in common with the end of a text to be considered.
	pair = 2
	// candidates is the maximum number of places that are compared, the latest first. It limits the time of a search.
	candidates = 64
	// maxLength is the maximum length of a match, in tokens. Longer matches count as this long.
	maxLength = 32
)

// Index is a text that can be searched for an earlier place that matches its end. The zero value is an empty text. It
// is the match finder of deflate, with pairs of tokens in place of hashed bytes: a pair fits into the key of the map,
// so that there are no collisions. It needs 8 bytes and at most one map entry for each token.
type Index struct {
	text []int32
	last map[uint64]int32 // by pair, the last position at which it ends
	prev []int32          // by position, where the pair that ends there ended before; -1: nowhere
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// Append adds tokens to the text, each in constant time.
func (x *Index) Append(tokens ...int32) {
	if x.last == nil {
		x.last = make(map[uint64]int32)
	}
	for _, t := range tokens {
		at, before := len(x.text), int32(-1)
		x.text = append(x.text, t)
		if at+1 >= pair {
			k := pairKey(x.text[at-1], t)
			if p, ok := x.last[k]; ok {
				before = p
			}
			x.last[k] = int32(at)
		}
		x.prev = append(x.prev, before)
	}
}

// Len returns the number of tokens in the text.
func (x *Index) Len() int { return len(x.text) }

// Find returns what followed at the best match in the text. The best match is the place with the most tokens in common,
// counted backwards, with the end of the text followed by tail; of equal matches, the latest. Find returns the length
// of the match, 2 to [maxLength], and the n tokens that follow it. If these reach the end of the text, they are
// repeated, so that a period shorter than n is guessed in full. Find returns 0 and nil if there is no match. It
// compares the latest 64 places that share the last two tokens.
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
	p, ok := x.last[pairKey(at(whole-2), at(whole-1))]
	if ok && int(p) == whole-1 { // the end itself
		p = x.prev[p]
	}
	best := -1
	for tries := candidates; ok && p >= 0 && tries > 0 && length < maxLength; tries-- {
		same := pair
		for same < maxLength && same <= int(p) && x.text[int(p)-same] == at(whole-1-same) {
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
