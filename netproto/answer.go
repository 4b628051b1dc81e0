package netproto

import (
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Answer is the message with a model's reply to an [Ask]. On the wire a log-probability is a multiple of 1/1024, and
// times are in microseconds.
type Answer struct{ terms.Reply }

// Append appends the frame to b.
func (a Answer) Append(b []byte) []byte {
	return appendFrame(b, KindAnswer, func(b []byte) []byte {
		b = appendUvarint(appendUvarint(b, int(a.Token)), len(a.Top))
		for _, c := range a.Top {
			b = appendLogProb(appendUvarint(b, int(c.ID)), c.LogProb)
		}
		b = appendUvarint(appendUvarint(b, a.Audited), len(a.Audit))
		last := 0
		for _, f := range a.Audit {
			b = appendUvarint(appendUvarint(b, f.Pos-last), int(f.Token))
			b = appendLogProb(b, f.LogProb)
			last = f.Pos
		}
		b = appendMicros(appendMicros(b, a.Queue), a.Compute)
		if a.Scored() {
			for _, f := range a.Audit {
				b = appendScore(appendScore(b, f.Score), f.Stands)
			}
		}
		return b
	})
}

// ParseAnswer takes an Answer of n bytes from the front of b.
func ParseAnswer(b []byte) (a Answer, n int, err error) {
	p, n := openFrame(b, KindAnswer)
	a.Token = p.readTokenID("token")
	for range p.readCount("top", MaxK, 2) {
		a.Top = append(a.Top, terms.Candidate{ID: p.readTokenID("top id"), LogProb: p.readLogProb("top log-prob")})
	}
	a.Audited = int(p.readUvarint("audited", MaxPosition))
	last := 0
	for range p.readCount("audit", MaxPosition, 3) {
		last += int(p.readUvarint("audit position", uint64(MaxPosition-last)))
		f := terms.Finding{Pos: last, Token: p.readTokenID("audit token"), LogProb: p.readLogProb("audit log-prob")}
		a.Audit = append(a.Audit, f)
	}
	a.Queue, a.Compute = p.readMicros("queue"), p.readMicros("compute")
	if len(a.Audit) > 0 && len(p.b) > 0 {
		for i := range a.Audit {
			a.Audit[i].Score, a.Audit[i].Stands = p.readScores()
		}
		if !a.Scored() {
			p.failField("score", ErrValue)
		}
	}
	if err := p.closeFrame(); err != nil {
		return Answer{}, 0, err
	}
	return a, n, nil
}
