package netproto

// Ahead is a token that the large model decoded beyond what it answered: the one that follows the context, the token of
// the [Answer] and those of the Aheads before it. Where an ask with [terms.EachChoice] has findings, the text goes
// another way from the first of these on: then it is the one that follows the context up to there, the token of that
// finding and those of the Aheads before.
type Ahead struct {
	Token int32
}

// Append appends the frame to b.
func (a Ahead) Append(b []byte) []byte {
	return appendFrame(b, KindAhead, func(b []byte) []byte { return appendUvarint(b, int(a.Token)) })
}

// ParseAhead takes an Ahead of n bytes from the front of b.
func ParseAhead(b []byte) (a Ahead, n int, err error) {
	p, n := openFrame(b, KindAhead)
	a.Token = p.id("token")
	if err := p.close(); err != nil {
		return Ahead{}, 0, err
	}
	return a, n, nil
}
