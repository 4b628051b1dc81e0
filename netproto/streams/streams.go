// Package streams has what both ends of a connection do with its QUIC streams.
package streams

import (
	"time"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Finish takes the end of a stream, which may come a packet later than the last message and which nobody should wait
// for: a second at most. It reports whether something else came.
func Finish(s *quic.Stream) (more bool) {
	const patience = time.Second
	_ = s.SetReadDeadline(time.Now().Add(patience)) // it never errs
	n, _ := s.Read(make([]byte, 1))
	s.CancelRead(quic.StreamErrorCode(netproto.NoReason))
	return n > 0
}
