package lookup

// MostRows is the maximum number of rows in a forward call with guesses: the kernels compute up to this many rows
// together.
const MostRows = 8

// Text is a growing text with an index and the rate of accepted guesses. The zero value is an empty text.
type Text struct {
	index Index
	rate  Rate
	last  match
}

// match is the result of the last search without a tail.
type match struct {
	tokens int // of the text at that time
	length int // of the match; 0: there is none
	next   int32
}

// Append adds tokens that the rate does not learn from, such as a prompt.
func (t *Text) Append(tokens ...int32) { t.index.Append(tokens...) }

// Grow adds the token that followed, and learns whether a guess would have been accepted. A guess is accepted if the
// token is guessable and equals the one after the last match.
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
		t.last = match{tokens: t.index.Len(), length: length}
		if length > 0 {
			t.last.next = next[0]
		}
	}
	return length, next
}

// Len returns the number of tokens in the text.
func (t *Text) Len() int { return t.index.Len() }

// Rate returns the rate of accepted guesses.
func (t *Text) Rate() *Rate { return &t.rate }
