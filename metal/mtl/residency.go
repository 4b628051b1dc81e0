package mtl

import "sync"

// residency is the MTLResidencySet of a device's command queue: buffers that stay where the GPU finds them, so that no
// command buffer has to see to that anew. Systems before macOS 15 have none, and set is 0.
type residency struct {
	mu      sync.Mutex
	set     id
	pending bool // something was added since the last commit
}

// newResidency makes a residency set for all command buffers of queue, where the system has such sets.
func newResidency(s *scope, device, queue id) *residency {
	r := new(residency)
	if s.classes[classResidencySetDescriptor] == 0 || !s.responds(device, selNewResidencySet) {
		return r
	}
	descriptor := s.make(classResidencySetDescriptor)
	defer s.release(descriptor)
	r.set = id(s.send(device, selNewResidencySet, uintptr(descriptor), s.errorWord()))
	if r.set != 0 { // else everything works without
		s.send(queue, selAddResidencySet, uintptr(r.set))
	}
	return r
}

// add takes a buffer in, for the command buffers that are committed from now on.
func (r *residency) add(s *scope, buffer id) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set != 0 {
		s.send(r.set, selAddAllocation, uintptr(buffer))
		r.pending = true
	}
}

// remove gives up a buffer that no command buffer uses any more, before it is released.
func (r *residency) remove(s *scope, buffer id) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set != 0 {
		s.send(r.set, selRemoveAllocation, uintptr(buffer))
		s.send(r.set, selCommit)
	}
}

// commit makes the buffers resident that were added, before a command buffer is committed.
func (r *residency) commit(s *scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending {
		s.send(r.set, selCommit)
		s.send(r.set, selRequestResidency)
		r.pending = false
	}
}

// end releases the set.
func (r *residency) end(s *scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set != 0 {
		s.send(r.set, selEndResidency)
		s.release(r.set)
		r.set = 0
	}
}
