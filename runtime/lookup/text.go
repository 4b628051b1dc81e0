package lookup

// MostRows is the most rows of a forward call that guesses from the text fill up: the kernels take so many together.
const MostRows = 8

// Text is a text that grows, and what is learnt of it: how often what follows is what had followed before. Its zero
// value is empty.
type Text struct {
	index Index
	rate  Rate
	last  behind
}

// behind is what was found behind the first tokens of a text.
type behind struct {
	tokens int // so many
	length int // of the match; 0: there is none
	next   int32
}

// Append adds tokens from which nothing is to be learnt, such as a prompt.
func (t *Text) Append(tokens ...int32) { t.index.Append(tokens...) }

// Grow adds the token that followed, and learns whether a guess of it would have held: where it was to be guessed at
// all, if it is what had followed before.
func (t *Text) Grow(token int32, guessable bool) {
	if t.last.tokens != t.index.Len() {
		t.Find(nil, 1)
	}
	if b := t.last; b.length > 0 {
		t.rate.Learn(b.length, guessable && b.next == token)
	}
	t.index.Append(token)
}

// Find is [Index.Find].
func (t *Text) Find(tail []int32, n int) (length int, next []int32) {
	length, next = t.index.Find(tail, n)
	if len(tail) == 0 && n > 0 {
		t.last = behind{tokens: t.index.Len(), length: length}
		if length > 0 {
			t.last.next = next[0]
		}
	}
	return length, next
}

// Len is the number of tokens in the text.
func (t *Text) Len() int { return t.index.Len() }

// Rate is what was learnt.
func (t *Text) Rate() *Rate { return &t.rate }
