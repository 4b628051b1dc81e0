//go:build linux && (amd64 || arm64)

package mtl

import "maps"

// fakeResidency is the state of an MTLResidencySet: its allocations, and those after the next commit.
type fakeResidency struct {
	has, staged map[*object]bool
}

func fakeResidencyMethods() map[string]map[string]method {
	return map[string]map[string]method{
		"class MTLResidencySetDescriptor": allocate("MTLResidencySetDescriptor", func() any { return nil }),
		"MTLResidencySetDescriptor":       {"init": initialize},
		"MTLResidencySet": {
			"addAllocation:": func(f *fake, self *object, c *fakeCall) {
				if b := f.object(c.arg(0), "MTLBuffer", "the allocation"); b != nil {
					b.resident = self.value.(*fakeResidency)
					b.resident.staged[b] = true
				}
			},
			"removeAllocation:": func(f *fake, self *object, c *fakeCall) {
				r := self.value.(*fakeResidency)
				b := f.object(c.arg(0), "MTLBuffer", "the allocation")
				if b != nil && !r.staged[b] {
					f.fault("removeAllocation: of a buffer that the set does not have")
				}
				delete(r.staged, b)
			},
			"commit": func(f *fake, self *object, c *fakeCall) {
				r := self.value.(*fakeResidency)
				r.has = maps.Clone(r.staged)
			},
			"requestResidency": func(f *fake, self *object, c *fakeCall) {},
			"endResidency":     func(f *fake, self *object, c *fakeCall) {},
		},
	}
}

// newResidencySet implements newResidencySetWithDescriptor:error:.
func newResidencySet(f *fake, self *object, c *fakeCall) {
	if f.object(c.arg(0), "MTLResidencySetDescriptor", "the descriptor") == nil {
		return
	}
	f.finishError(c.arg(1), nil)
	r := &fakeResidency{has: map[*object]bool{}, staged: map[*object]bool{}}
	c.value = f.newObject("MTLResidencySet", r).address
}

// addResidencySet adds a residency set to a command queue.
func addResidencySet(f *fake, self *object, c *fakeCall) {
	if o := f.object(c.arg(0), "MTLResidencySet", "the residency set"); o != nil {
		self.value = o.value
	}
}

// checkResidency finds a buffer that a command buffer uses and that is not in the residency set of its queue. Metal
// would make it resident for every command buffer.
func (f *fake) checkResidency(b *fakeCommands) {
	r, ok := b.queue.value.(*fakeResidency)
	if !ok {
		return
	}
	for _, o := range b.uses {
		if o.class == "MTLBuffer" && !r.has[o] {
			f.fault("a command buffer uses a buffer that is not resident")
			return
		}
	}
}
