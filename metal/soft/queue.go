package soft

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// state is the state of a command buffer.
type state int

const (
	encoding state = iota
	committed
	discarded
	waited
)

// Commit implements metal.Commands.
func (c *commands) Commit() {
	if c.state == committed || c.state == waited {
		c.acceptsCommands("commit")
		return
	}
	if c.state == discarded {
		return
	}
	c.state = committed
	d := c.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		c.recordError("commit: %w", metal.ErrClosed)
		c.markCompleted()
		return
	}
	d.queue = append(d.queue, c)
	if !d.running {
		d.running = true
		go d.runQueue()
	}
}

// markCompleted releases what the command buffer retains. The device's mutex is held.
func (c *commands) markCompleted() {
	for _, b := range c.held {
		b.releaseReference()
	}
	c.held, c.levels = nil, nil
	close(c.done)
}

// Discard implements metal.Commands.
func (c *commands) Discard() {
	if c.state != encoding {
		return
	}
	c.state = discarded
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	c.markCompleted()
}

// Wait implements metal.Commands.
func (c *commands) Wait() (metal.Timing, error) {
	switch c.state {
	case encoding:
		return metal.Timing{}, errUnwaited
	case discarded:
		return metal.Timing{}, errDiscarded
	}
	<-c.done
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	c.state = waited
	return c.timing, c.err
}

func (d *Device) runQueue() {
	for {
		d.mu.Lock()
		if len(d.queue) == 0 {
			d.running = false
			d.idle.Broadcast()
			d.mu.Unlock()
			return
		}
		c := d.queue[0]
		d.queue = d.queue[1:]
		err := c.err
		d.mu.Unlock()
		start := time.Since(d.begin)
		if err == nil {
			err = d.runLevels(c.levels)
		}
		timing := metal.Timing{Start: start, End: time.Since(d.begin)}
		d.mu.Lock()
		if c.timing = timing; c.err == nil {
			c.err = err
		}
		c.markCompleted()
		d.mu.Unlock()
	}
}
