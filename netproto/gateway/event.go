package gateway

import "time"

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	Connected    EventKind = 1 + iota // a client was welcomed
	Disconnected                      // and is gone
	Refused                           // a connection, ask or sync got a refusal, see Err
	Answered                          // an ask got its answer
	Resent                            // an ask or sync needs more of its context
	Synced                            // tokens were streamed ahead
	Dropped                           // an ask was cancelled, or its client vanished
	Forgotten                         // a session was evicted, expired or ended
)

// String returns the name of a kind.
func (k EventKind) String() string {
	names := [...]string{"connected", "disconnected", "refused", "answered", "resent", "synced", "dropped", "forgotten"}
	if k < Connected || k > Forgotten {
		return "unknown"
	}
	return names[k-1]
}

// Event is a fact for statistics and logs. It holds no secret and no text of a user.
type Event struct {
	Kind      EventKind
	Client    string        // name of the token of authentication, or the client's address without its port
	Session   uint64        // as Question.Session; 0 where there is none
	Early     bool          // the connection began with 0-RTT
	Context   int           // tokens
	Delta     int           // tokens that travelled for it
	BytesUp   int           // payload
	BytesDown int           // payload
	Audited   int           // findings
	Queue     time.Duration // in the gateway and the upstream
	Compute   time.Duration
	Err       error // of Refused and Dropped: a netproto.Refusal or netproto.Code, with its cause
}
