package mtl

import (
	"errors"
	"sync"
)

// commandQueue is an MTLCommandQueue with the fence that orders its command buffers.
type commandQueue struct {
	queue id
	fence id
}

// queues holds the command queue in use. Once a command buffer has failed, Metal ignores those after it in the same
// queue ("ignored for causing prior errors"), and nobody updates the fence: both are replaced.
type queues struct {
	mu     sync.Mutex
	now    commandQueue
	failed bool
}

func (d *Device) newQueue(s *scope) (q commandQueue, err error) {
	q = commandQueue{id(s.send(d.device, selNewCommandQueue)), id(s.send(d.device, selNewFence))}
	if q.queue == 0 || q.fence == 0 {
		q.release(s)
		return commandQueue{}, errors.New("the GPU gives no command queue")
	}
	return q, nil
}

func (q commandQueue) release(s *scope) {
	s.releaseObject(q.fence)
	s.releaseObject(q.queue)
}

// workingQueue returns the queue for the next command buffer. The caller has waited for all command buffers of one that
// failed.
func (d *Device) workingQueue(s *scope) (commandQueue, error) {
	d.queues.mu.Lock()
	defer d.queues.mu.Unlock()
	if !d.queues.failed {
		return d.queues.now, nil
	}
	q, err := d.newQueue(s)
	if err != nil {
		return q, err
	}
	d.residency.addQueue(s, q.queue)
	d.lifetime.releaseLater(s, d.queues.now.release)
	d.queues.now, d.queues.failed = q, false
	return q, nil
}

// recordFailure records that a command buffer of q has failed.
func (d *Device) recordFailure(q commandQueue) {
	d.queues.mu.Lock()
	defer d.queues.mu.Unlock()
	d.queues.failed = d.queues.failed || q == d.queues.now
}
