package mtl

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// Wait implements [metal.Commands]. Only Wait reports that a command buffer failed: its results are then missing or
// incomplete.
func (c *commands) Wait() (metal.Timing, error) {
	if c.s != nil {
		c.failf("Wait before Commit")
		return metal.Timing{}, c.err
	}
	if c.buffer == 0 {
		c.failf("Wait without a Commit before it, or a second time")
		return metal.Timing{}, c.err
	}
	s := c.d.objc.begin()
	defer s.end()
	defer func() {
		s.release(c.buffer)
		c.buffer = 0
		c.d.lifetime.end(s, c.number)
	}()
	s.send(c.buffer, selWaitUntilCompleted)
	if status := s.send(c.buffer, selStatus); status != mtlCommandBufferStatusCompleted {
		c.failf("status %d: %s", status, s.describe(id(s.send(c.buffer, selCommandBufferError))))
	}
	if c.err != nil {
		return metal.Timing{}, c.err
	}
	start, end := s.seconds(c.buffer, selGPUStartTime), s.seconds(c.buffer, selGPUEndTime)
	return metal.Timing{Start: duration(start), End: duration(end)}, nil
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
