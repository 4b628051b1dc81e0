// Package streams has functions for QUIC streams that both ends of a connection use.
package streams

import (
	"time"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Finish reads the end of a stream, which may arrive a packet later than the last message. It waits for a second at
// most. It reports whether more data arrived.
func Finish(s *quic.Stream) (more bool) {
	const patience = time.Second
	_ = s.SetReadDeadline(time.Now().Add(patience)) // always returns nil
	n, _ := s.Read(make([]byte, 1))
	s.CancelRead(quic.StreamErrorCode(netproto.NoReason))
	return n > 0
}
