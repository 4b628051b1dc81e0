package gateway

import (
	"net/netip"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of event.
const (
	Connected    EventKind = 1 + iota // a client was welcomed
	Disconnected                      // it has disconnected
	Refused                           // a connection, ask or sync got a refusal, see Err
	Answered                          // an ask got its answer
	Resent                            // an ask or sync needs more of its context
	Synced                            // tokens were streamed early
	Dropped                           // an ask was cancelled, or its client vanished
	Forgotten                         // a session was evicted, expired or ended
	Draining                          // the gateway accepts no new asks, and waits for the open ones
	Drained                           // draining has ended
	Decoded                           // tokens were sent after an answer, or there were none to send
)

// String returns the name of a kind.
func (k EventKind) String() string {
	names := [...]string{"connected", "disconnected", "refused", "answered", "resent", "synced", "dropped", "forgotten",
		"draining", "drained", "decoded"}
	if k < Connected || k > Decoded {
		return "unknown"
	}
	return names[k-1]
}

// Event is an event for statistics and logs. It contains no secret and no text of a user.
type Event struct {
	Kind      EventKind
	Message   netproto.Kind // the message concerned: KindAsk, KindSync, or 0 for a connection or the gateway
	Client    string        // name of the access token; "" on an open gateway
	Device    string        // as netproto.Device.Name; "" before the Hello
	Address   netip.Prefix  // of the connection, a /64 of IPv6; zero in events of the gateway itself
	Session   uint64        // as Question.Session; 0 where there is none
	Early     bool          // the connection began with 0-RTT
	Context   int           // tokens
	Delta     int           // tokens sent for it
	BytesUp   int           // payload
	BytesDown int           // payload
	Audited   int           // findings: positions at which the large model would have chosen another token
	Looked    int           // positions that were audited
	Verify    terms.Verify  // of an ask
	Decoded   int           // of Decoded: tokens after the answer
	Queue     time.Duration // in the gateway and the upstream
	Compute   time.Duration
	// of an ask or sync: from when it had arrived to when the reply was written; of Decoded: from then on
	Took   time.Duration
	Lasted time.Duration // of Disconnected and Drained: since the connection, or the draining, began
	Asks   int           // of Disconnected: asks and syncs received
	Conns  int           // of Draining: open connections; of Drained: those that had to be closed
	// of Refused, Dropped, Disconnected, and of Decoded with fewer tokens than possible: a netproto.Refusal or
	// netproto.Code, with its cause
	Err error
}

// Code returns the code of Err on the wire; NoReason if there is none.
func (e Event) Code() netproto.Code {
	if e.Err == nil {
		return netproto.NoReason
	}
	return errorCode(e.Err)
}
