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
	a.Token = p.id("token")
	for range p.count("top", MaxK, 2) {
		a.Top = append(a.Top, terms.Candidate{ID: p.id("top id"), LogProb: p.logProb("top log-prob")})
	}
	a.Audited = int(p.uvarint("audited", MaxPosition))
	last := 0
	for range p.count("audit", MaxPosition, 3) {
		last += int(p.uvarint("audit position", uint64(MaxPosition-last)))
		f := terms.Finding{Pos: last, Token: p.id("audit token"), LogProb: p.logProb("audit log-prob")}
		a.Audit = append(a.Audit, f)
	}
	a.Queue, a.Compute = p.micros("queue"), p.micros("compute")
	if len(a.Audit) > 0 && len(p.b) > 0 {
		for i := range a.Audit {
			a.Audit[i].Score, a.Audit[i].Stands = p.scores()
		}
		if !a.Scored() {
			p.fail("score", ErrValue)
		}
	}
	if err := p.close(); err != nil {
		return Answer{}, 0, err
	}
	return a, n, nil
}
