package mtl

import "sync"

// residency is the MTLResidencySet of a device's command queue. It keeps buffers resident for the GPU, so that a
// command buffer need not make them resident each time. Systems before macOS 15 do not have it, and set is 0.
type residency struct {
	mu      sync.Mutex
	set     id
	pending bool // something was added since the last commit
}

// newResidency makes a residency set, if the system supports it.
func newResidency(s *scope, device id) *residency {
	r := new(residency)
	if s.classes[classResidencySetDescriptor] == 0 || !s.respondsTo(device, selNewResidencySet) {
		return r
	}
	descriptor := s.newObject(classResidencySetDescriptor)
	defer s.releaseObject(descriptor)
	r.set = id(s.send(device, selNewResidencySet, uintptr(descriptor), s.errorWord()))
	return r // if it is 0, everything works without it
}

// addQueue has the set apply to all command buffers of queue.
func (r *residency) addQueue(s *scope, queue id) {
	if r.set != 0 {
		s.send(queue, selAddResidencySet, uintptr(r.set))
	}
}

func (r *residency) addBuffer(s *scope, buffer id) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set != 0 {
		s.send(r.set, selAddAllocation, uintptr(buffer))
		r.pending = true
	}
}

// removeBuffer removes a buffer that no command buffer uses any more, before it is released.
func (r *residency) removeBuffer(s *scope, buffer id) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set != 0 {
		s.send(r.set, selRemoveAllocation, uintptr(buffer))
		s.send(r.set, selCommit)
	}
}

func (r *residency) commitChanges(s *scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending {
		s.send(r.set, selCommit)
		s.send(r.set, selRequestResidency)
		r.pending = false
	}
}

func (r *residency) releaseSet(s *scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set != 0 {
		s.send(r.set, selEndResidency)
		s.releaseObject(r.set)
		r.set = 0
	}
}
