package mtl

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// Wait implements [metal.Commands]. Only Wait reports that a command buffer failed: its results are then missing or
// incomplete.
func (c *commands) Wait() (metal.Timing, error) {
	if c.s != nil {
		c.recordErrorf("Wait before Commit")
		return metal.Timing{}, c.err
	}
	if c.buffer == 0 {
		c.recordErrorf("Wait without a Commit before it, or a second time")
		return metal.Timing{}, c.err
	}
	s := c.d.objc.openScope()
	defer s.closeScope()
	defer func() {
		s.releaseObject(c.buffer)
		c.buffer = 0
		c.d.lifetime.removeCommandBuffer(s, c.number)
	}()
	s.send(c.buffer, selWaitUntilCompleted)
	if status := s.send(c.buffer, selStatus); status != mtlCommandBufferStatusCompleted {
		why := s.describeError(id(s.send(c.buffer, selCommandBufferError)))
		c.recordErrorf("%w: status %d: %s", metal.ErrFault, status, why)
		c.d.recordFailure(c.queue)
	}
	if c.err != nil {
		return metal.Timing{}, c.err
	}
	start, end := s.sendForSeconds(c.buffer, selGPUStartTime), s.sendForSeconds(c.buffer, selGPUEndTime)
	return metal.Timing{Start: secondsToDuration(start), End: secondsToDuration(end)}, nil
}

func secondsToDuration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
