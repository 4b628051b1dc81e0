package link

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// departure is a datagram that a pipe sent.
type departure struct {
	n  uint64 // of the packet, from its data
	at time.Duration
}

// flow is a pipe in virtual time and what it sent.
type flow struct {
	*pipe
	left []departure
	err  error // returned by sending
}

// seen returns what was sent so far.
func (p *flow) seen() []departure {
	synctest.Wait()
	return p.left
}

// flowing runs a pipe in a bubble of virtual time, and stops it when f returns.
func flowing(t *testing.T, o Options, w directionID, f func(t *testing.T, p *flow)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		p, began := &flow{}, time.Now()
		p.pipe = newPipe(newEmulator(o, w), func(q *datagram) error {
			p.left = append(p.left, departure{binary.LittleEndian.Uint64(q.data), time.Since(began)})
			return p.err
		})
		p.startClock(began, newTimerAlarm())
		done := make(chan struct{})
		go func() { p.runDelivery(); close(done) }()
		defer func() { p.stopDelivery(); <-done }()
		f(t, p)
		conserved(t, p.readCounts())
	})
}

// conserved checks that every packet is counted in one place.
func conserved(t testing.TB, c Counts) {
	t.Helper()
	ended := c.Delivered + c.Lost + c.Dropped + c.Vanished + c.Failed
	require.Equal(t, c.Packets, ended+int64(c.InFlight), "%+v", c)
}

// numbered returns a datagram with its number, of a size with headers.
func numbered(n, size int) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, size), uint64(n))[:max(8, size-headerBytes)]
}

// TestPipeIsTheEmulator: in virtual time a pipe sends exactly what the emulator decides, at the exact time, for random
// links and traffic, and counts every packet once.
func TestPipeIsTheEmulator(t *testing.T) {
	for n := range uint64(100) {
		r := seeds(n)
		o := anyOptions(t, r)
		packets := traffic(r, 300)
		for i := range packets {
			packets[i].size = max(packets[i].size, 8+headerBytes)
		}
		w := []directionID{directionUp, directionDown}[n%2]
		var want []departure
		last := time.Duration(0)
		for i, f := range travel(o, w, packets) {
			if f.end == departs {
				want = append(want, departure{uint64(i), f.due})
			}
			last = max(last, f.due, f.across) // a lost packet waits for its turn, too
		}
		flowing(t, o, w, func(t *testing.T, p *flow) {
			began := time.Now()
			for i, q := range packets {
				time.Sleep(q.at - time.Since(began))
				p.acceptDatagram(nil, numbered(i, q.size))
				conserved(t, p.readCounts())
			}
			time.Sleep(last - time.Since(began) + time.Second)
			require.Equal(t, want, p.seen(), "history %d: %+v", n, o)
			require.Zero(t, p.readCounts().InFlight)
		})
	}
}

// TestPipeDark: while a link is a black hole, packets that arrive or are due are dropped; packets that are due later
// are not.
func TestPipeDark(t *testing.T) {
	flowing(t, Options{Up: Direction{Delay: time.Second}}, directionUp, func(t *testing.T, p *flow) {
		p.acceptDatagram(nil, numbered(0, 100))
		time.Sleep(500 * time.Millisecond)
		p.setBlackhole(true)
		p.acceptDatagram(nil, numbered(1, 100))
		time.Sleep(600 * time.Millisecond) // packet 0 is due
		p.setBlackhole(false)
		p.acceptDatagram(nil, numbered(2, 100))
		p.setBlackhole(true)
		p.setBlackhole(false)
		time.Sleep(time.Minute)
		assert.Equal(t, []departure{{2, 2100 * time.Millisecond}}, p.seen())
		assert.EqualValues(t, 2, p.readCounts().Vanished)
	})
}

// TestPipeStops: a pipe that is stopped drops what it holds; its methods still return.
func TestPipeStops(t *testing.T) {
	var kept *flow
	flowing(t, Options{Up: Direction{Delay: time.Second}}, directionUp, func(t *testing.T, p *flow) {
		for i := range 10 {
			p.acceptDatagram(nil, numbered(i, 100))
		}
		kept = p
	})
	assert.Empty(t, kept.left)
	kept.acceptDatagram(nil, numbered(0, 100))
	kept.setBlackhole(true)
	assert.Equal(t, 11, kept.readCounts().InFlight)
}

// TestPipeFailure: datagrams that the system does not send are counted.
func TestPipeFailure(t *testing.T) {
	flowing(t, Options{}, directionUp, func(t *testing.T, p *flow) {
		p.err = errors.New("no buffers")
		p.acceptDatagram(nil, numbered(0, 100))
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, p.readCounts().Failed)
		assert.Zero(t, p.readCounts().InFlight)
	})
}

// TestPipeHoldsNoMoreThanItMay: the bytes in flight are bounded, so that a long delay cannot exhaust the memory.
func TestPipeHoldsNoMoreThanItMay(t *testing.T) {
	flowing(t, Options{Up: Direction{Delay: time.Hour}}, directionUp, func(t *testing.T, p *flow) {
		data := make([]byte, 1<<16)
		for range maxInFlight/len(data) + 5 {
			p.acceptDatagram(nil, data)
		}
		s := p.readCounts()
		assert.Equal(t, maxInFlight/len(data), s.InFlight)
		assert.EqualValues(t, 5, s.Dropped)
		time.Sleep(2 * time.Hour)
		p.acceptDatagram(nil, data)
		assert.EqualValues(t, 5, p.readCounts().Dropped, "room for another packet")
	})
}

// TestPipeCounts: each counter of a narrow pipe, and of one with slow sending.
func TestPipeCounts(t *testing.T) {
	const ms = time.Millisecond
	narrow := Direction{Capacity: read(t, readCapacity, "10\n"), Queue: 5000}
	flowing(t, Options{Up: narrow}, directionUp, func(t *testing.T, p *flow) {
		for i := range 4 {
			p.acceptDatagram(nil, numbered(i, 1500))
		}
		want := Counts{Packets: 4, Bytes: 4 * 1472, Dropped: 1, InFlight: 3}
		assert.Equal(t, want, p.readCounts())
		time.Sleep(15 * ms)
		synctest.Wait()
		want.Delivered, want.InFlight = 1, 2
		assert.Equal(t, want, p.readCounts())
		time.Sleep(time.Second)
		synctest.Wait()
		want.Delivered, want.InFlight = 3, 0
		assert.Equal(t, want, p.readCounts())
		assert.Zero(t, p.bytes)
	})
	flowing(t, Options{Up: Direction{Delay: 10 * ms}}, directionUp, func(t *testing.T, p *flow) {
		send := p.send
		p.send = func(q *datagram) error { time.Sleep(4 * ms); return send(q) }
		for i := range 3 {
			p.acceptDatagram(nil, numbered(i, 500))
		}
		time.Sleep(time.Second)
		assert.Equal(t, []departure{{0, 14 * ms}, {1, 18 * ms}, {2, 22 * ms}}, p.seen())
	})
}

// closing is an alarm that records whether it was closed.
type closing struct {
	alarm
	closed bool
}

func (c *closing) closeTimer() {
	c.closed = true
	c.alarm.closeTimer()
}

// TestPipeClosesItsAlarm: a pipe that has stopped closes its alarm.
func TestPipeClosesItsAlarm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, a := newPipe(newEmulator(Options{}, directionUp), nil), &closing{alarm: newTimerAlarm()}
		p.startClock(time.Now(), a)
		go p.runDelivery()
		synctest.Wait()
		assert.False(t, a.closed)
		p.stopDelivery()
		synctest.Wait()
		assert.True(t, a.closed)
	})
}
