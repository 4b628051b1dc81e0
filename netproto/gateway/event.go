package gateway

import (
	"net/netip"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	Connected    EventKind = 1 + iota // a client was welcomed
	Disconnected                      // and is gone
	Refused                           // a connection, ask or sync got a refusal, see Err
	Answered                          // an ask got its answer
	Resent                            // an ask or sync needs more of its context
	Synced                            // tokens were streamed early
	Dropped                           // an ask was cancelled, or its client vanished
	Forgotten                         // a session was evicted, expired or ended
	Draining                          // the gateway takes no new asks any more, and waits for the open ones
	Drained                           // it has ended
	Decoded                           // tokens were sent behind an answer, or none in the end
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

// Event is a fact for statistics and logs. It holds no secret, and no text of a user but in Text and Token.
type Event struct {
	Kind      EventKind
	Message   netproto.Kind // what it is about: KindAsk, KindSync, or 0: a connection, or the gateway
	Client    string        // name of the access token; "" on an open gateway
	Device    string        // as netproto.Device.Name; "" before the Hello
	Address   netip.Prefix  // of the connection, a /64 of IPv6; zero in events of the gateway itself
	Session   uint64        // as Question.Session; 0 where there is none
	Early     bool          // the connection began with 0-RTT
	Warming   bool          // of Refused: it was computed early, after the sync had got its answer
	Context   int           // tokens
	Delta     int           // tokens that travelled for it
	BytesUp   int           // payload
	BytesDown int           // payload
	Audited   int           // findings: positions at which the large model would have chosen another token
	Looked    int           // positions that it looked at
	Verify    terms.Verify  // of an ask
	Decoded   int           // of Decoded: tokens beyond the one that was asked for
	Queue     time.Duration // in the gateway and the upstream
	Compute   time.Duration
	// of an ask or sync: from when it was there as a whole to when the reply was written; of Decoded: from then on
	Took   time.Duration
	Lasted time.Duration // of Disconnected and Drained: since the connection, or the draining, began
	Asks   int           // of Disconnected: asks and syncs that came
	Conns  int           // of Draining: connections that are open; of Drained: those that had to be closed
	Text   []int32       // of Answered, with Options.TellTexts: the last tokens of the context; else nil
	Token  int32         // alike: the answer
	// of Refused, Dropped, Disconnected, and of Decoded where it came to fewer tokens than could be: a netproto.Refusal
	// or netproto.Code, with its cause
	Err error
}

// Code returns the code that Err goes by on the wire; NoReason where there is none.
func (e Event) Code() netproto.Code {
	if e.Err == nil {
		return netproto.NoReason
	}
	return codeOf(e.Err)
}
