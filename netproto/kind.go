package netproto

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Kind is the type of a message, the first byte of its frame.
type Kind uint8

// The messages.
const (
	KindHello Kind = 1 + iota
	KindWelcome
	KindRefusal
	KindAsk
	KindAnswer
	KindNeed
	KindSync
	KindAck
	KindBye
	KindAhead
	KindClock
)

// String returns the name of a message.
func (k Kind) String() string {
	names := [...]string{"Hello", "Welcome", "Refusal", "Ask", "Answer", "Need", "Sync", "Ack", "Bye", "Ahead", "Clock"}
	if k < KindHello || k > KindClock {
		return fmt.Sprintf("message %d", uint8(k))
	}
	return names[k-1]
}

// ReadFrame reads one whole frame from r, for the parser of its kind. It refuses a body of more than limit bytes before
// reading it. It returns [io.EOF] only if r ends before the frame begins, and reads nothing after the frame.
func ReadFrame(r io.Reader, limit int) (Kind, []byte, error) {
	b := make([]byte, 2, 64)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	kind := Kind(b[0])
	for b[len(b)-1] >= 0x80 && len(b) <= 5 {
		b = append(b, 0)
		if _, err := io.ReadFull(r, b[len(b)-1:]); err != nil {
			return 0, nil, noEOF(err)
		}
	}
	size, n := binary.Uvarint(b[1:])
	if n != len(b)-1 || n > 1 && b[len(b)-1] == 0 {
		return 0, nil, &ParseError{Message: kind.String(), Field: "length", Err: ErrValue}
	}
	if size > uint64(min(limit, MaxMessage)) {
		return 0, nil, &ParseError{Message: kind.String(), Field: "length", Err: ErrTooLong}
	}
	return readBody(r, kind, b, int(size))
}

// readBody reads a body. Its buffer grows as bytes arrive, so that a peer that only claims a length uses no memory.
func readBody(r io.Reader, kind Kind, b []byte, size int) (Kind, []byte, error) {
	const step = 1 << 14
	for size > 0 {
		n := min(size, step)
		b = append(b, make([]byte, n)...)
		if _, err := io.ReadFull(r, b[len(b)-n:]); err != nil {
			return 0, nil, noEOF(err)
		}
		size -= n
	}
	return kind, b, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
