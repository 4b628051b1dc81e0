package netproto

import (
	"encoding/binary"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Ask is the message of a question. It may be repeated: the answer is the same. Its Context is not sent: the Path has
// the part that the gateway lacks. Within is in milliseconds, from when the gateway has received the ask.
type Ask struct {
	Session uint32 // drawn by the client at random; belongs to the device that the Hello named
	Path    Path
	terms.Question
}

// The maximum number of candidates, and of tokens beyond the answer, that an ask can request.
const (
	MaxK     = 256
	MaxAhead = 64
)

// Append appends the frame to b.
func (a Ask) Append(b []byte) []byte {
	return appendFrame(b, KindAsk, func(b []byte) []byte {
		b = a.Path.appendTo(binary.LittleEndian.AppendUint32(b, a.Session))
		b = appendSampling(appendUvarint(appendUvarint(b, a.K), a.AuditFrom), a.Sampling)
		return appendUvarint(append(appendMillis(b, a.Within), a.verifyByte()), a.Ahead)
	})
}

// wantsClock is the bit, in the byte of the kind of verification, that requests a [Clock].
const wantsClock = 1 << 7

func (a Ask) verifyByte() byte {
	if a.Times {
		return byte(a.Verify) | wantsClock
	}
	return byte(a.Verify)
}

// ParseAsk takes an Ask of n bytes from the front of b. Its delta stays part of b.
func ParseAsk(b []byte) (a Ask, n int, err error) {
	p, n := openFrame(b, KindAsk)
	a.Session = p.readUint32("session")
	a.Path = p.readPath()
	a.K = int(p.readUvarint("k", MaxK))
	a.AuditFrom = int(p.readUvarint("audit from", MaxPosition))
	a.Sampling = p.readSampling()
	a.Within = p.readMillis("deadline")
	how := p.readUint8("verify")
	if a.Verify, a.Times = terms.Verify(how&^wantsClock), how&wantsClock != 0; a.Verify > terms.EachJudged {
		p.failField("verify", ErrValue)
	}
	a.Ahead = int(p.readUvarint("ahead", MaxAhead))
	if err := p.closeFrame(); err != nil {
		return Ask{}, 0, err
	}
	return a, n, nil
}
