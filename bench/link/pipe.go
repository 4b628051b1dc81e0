package link

import (
	"sync"
	"time"
)

// datagram is a datagram under way.
type datagram struct {
	due    time.Duration
	client *client
	data   []byte
}

// pipe is one direction of a running link: its emulator determines the fate of every datagram, and one goroutine sends
// them when they are due.
type pipe struct {
	send func(*datagram) error

	mu        sync.Mutex
	began     time.Time // zero before the link runs
	alarm     alarm     // for the goroutine; nil while there is none
	stopped   bool
	e         *emulator
	queue     []*datagram // under way, the next to depart first
	bytes     int         // sum of the datagrams' sizes in queue
	blackhole bool
	counts    Counts
}

func newPipe(e *emulator, send func(*datagram) error) *pipe { return &pipe{e: e, send: send} }

// now returns the time since the link began.
func (p *pipe) now() time.Duration {
	if p.began.IsZero() {
		return 0
	}
	return time.Since(p.began)
}

// accept takes a datagram that arrives now. It copies data.
func (p *pipe) accept(c *client, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.e.arrive(p.now(), len(data)+headerBytes)
	p.counts.Packets++
	p.counts.Bytes += int64(len(data))
	switch {
	case p.blackhole:
		f.end = vanished
	case f.end == departs && p.bytes+len(data) > maxInFlight:
		f.end = tailDrop
	}
	if f.end != departs {
		p.counts.ending(f.end)
		return
	}
	p.queue = append(p.queue, &datagram{f.due, c, append([]byte(nil), data...)})
	p.bytes += len(data)
	p.counts.InFlight++
	if len(p.queue) == 1 {
		p.rouse()
	}
}

// rouse wakes the goroutine when the next packet is due, or now.
func (p *pipe) rouse() {
	switch {
	case p.alarm == nil:
	case p.stopped:
		p.alarm.set(0)
	case len(p.queue) > 0:
		p.alarm.set(p.queue[0].due - p.now())
	}
}

// begin starts the clock of the link. The caller must then call [pipe.run].
func (p *pipe) begin(now time.Time, a alarm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.alarm = now, a
}

// run sends due packets until it is stopped.
func (p *pipe) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.alarm
	for p.deliver() {
		p.mu.Unlock()
		a.wait()
		p.mu.Lock()
	}
	p.alarm = nil
	a.close()
}

func (p *pipe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.rouse()
}

// deliver sends all due packets and sets the alarm for the next one. It returns false when the pipe was stopped. The
// lock is held.
func (p *pipe) deliver() bool {
	for !p.stopped && len(p.queue) > 0 {
		now := p.now()
		if p.queue[0].due > now {
			break
		}
		q := p.queue[0]
		p.queue[0], p.queue = nil, p.queue[1:]
		p.depart(q)
	}
	p.rouse()
	return !p.stopped
}

// depart sends a packet and counts it. The lock is held, except while it sends.
func (p *pipe) depart(q *datagram) {
	end := vanished
	if !p.blackhole {
		p.mu.Unlock()
		err := p.send(q)
		p.mu.Lock()
		if end = departs; err != nil {
			p.counts.Failed++
		} else {
			p.counts.Delivered++
		}
	}
	p.bytes -= len(q.data)
	p.counts.InFlight--
	p.counts.ending(end)
}

// setBlackhole, while on, drops all packets that arrive or are due.
func (p *pipe) setBlackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blackhole = on
}

func (p *pipe) stats() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}
