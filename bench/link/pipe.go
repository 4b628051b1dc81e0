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

func (p *pipe) sinceStart() time.Duration {
	if p.began.IsZero() {
		return 0
	}
	return time.Since(p.began)
}

// acceptDatagram copies data.
func (p *pipe) acceptDatagram(c *client, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.e.emulatePacket(p.sinceStart(), len(data)+headerBytes)
	p.counts.Packets++
	p.counts.Bytes += int64(len(data))
	switch {
	case p.blackhole:
		f.end = vanished
	case f.end == departs && p.bytes+len(data) > maxInFlight:
		f.end = tailDrop
	}
	if f.end != departs {
		p.counts.countEnd(f.end)
		return
	}
	p.queue = append(p.queue, &datagram{f.due, c, append([]byte(nil), data...)})
	p.bytes += len(data)
	p.counts.InFlight++
	if len(p.queue) == 1 {
		p.scheduleWake()
	}
}

func (p *pipe) scheduleWake() {
	switch {
	case p.alarm == nil:
	case p.stopped:
		p.alarm.wakeAfter(0)
	case len(p.queue) > 0:
		p.alarm.wakeAfter(p.queue[0].due - p.sinceStart())
	}
}

// startClock must be followed by [pipe.runDelivery].
func (p *pipe) startClock(now time.Time, a alarm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.alarm = now, a
}

func (p *pipe) runDelivery() {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.alarm
	for p.deliverDue() {
		p.mu.Unlock()
		a.waitForWake()
		p.mu.Lock()
	}
	p.alarm = nil
	a.closeTimer()
}

func (p *pipe) stopDelivery() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.scheduleWake()
}

// deliverDue sends all due packets and sets the alarm for the next one. It returns false when the pipe was stopped. The
// lock is held.
func (p *pipe) deliverDue() bool {
	for !p.stopped && len(p.queue) > 0 {
		now := p.sinceStart()
		if p.queue[0].due > now {
			break
		}
		q := p.queue[0]
		p.queue[0], p.queue = nil, p.queue[1:]
		p.sendDatagram(q)
	}
	p.scheduleWake()
	return !p.stopped
}

// sendDatagram sends a packet and counts it. The lock is held, except while it sends.
func (p *pipe) sendDatagram(q *datagram) {
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
	p.counts.countEnd(end)
}

func (p *pipe) setBlackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blackhole = on
}

func (p *pipe) readCounts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}
