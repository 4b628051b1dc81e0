package netproto

// Ahead is a token that the large model decoded beyond its answer. Its context is the context of the ask, the token of
// the [Answer] and the tokens of the previous Aheads. If an ask with [terms.EachChoice] has findings, the text changes
// at the first of them. Then the context is the part before that finding, the token of the finding and the tokens of
// the previous Aheads.
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
	a.Token = p.readTokenID("token")
	if err := p.closeFrame(); err != nil {
		return Ahead{}, 0, err
	}
	return a, n, nil
}
