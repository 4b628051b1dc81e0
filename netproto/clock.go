package netproto

import "time"

// Clock reports when a gateway had received the whole ask and when it sent the answer, on the gateway's clock:
// microseconds since the connection began. It precedes the [Answer] to an ask that requests it.
type Clock struct {
	Received time.Duration
	Sent     time.Duration // not before Received
}

// Append appends the frame to b.
func (c Clock) Append(b []byte) []byte {
	received := max(c.Received, 0).Truncate(time.Microsecond)
	return appendFrame(b, KindClock, func(b []byte) []byte {
		return appendMicros(appendMicros(b, received), c.Sent-received)
	})
}

// ParseClock takes a Clock of n bytes from the front of b.
func ParseClock(b []byte) (c Clock, n int, err error) {
	p, n := openFrame(b, KindClock)
	c.Received = p.readMicros("received")
	c.Sent = c.Received + p.readMicros("sent")
	if err := p.closeFrame(); err != nil {
		return Clock{}, 0, err
	}
	return c, n, nil
}
