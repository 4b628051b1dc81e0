//go:build linux && (amd64 || arm64)

package mtl

import (
	"maps"
	"runtime"
	"slices"
	"syscall"
	"unsafe"
)

// object is an Objective-C object, or a class.
type object struct {
	address uintptr
	class   string
	isClass bool
	raw     bool // alloc without init
	refs    int
	value   any    // state of its methods
	dealloc func() // called when the last reference is released

	resident *fakeResidency // of a buffer: the set that it was added to
}

// fakePool is an autorelease pool.
type fakePool struct {
	token   uintptr
	objects []*object
}

// registerName interns a selector.
func (f *fake) registerName(name string) uintptr {
	for address, known := range f.selectors {
		if known == name {
			return address
		}
	}
	f.next += 16
	f.selectors[f.next] = name
	return f.next
}

// getClass returns a class that has its own methods, or nil.
func (f *fake) getClass(name string) uintptr {
	if f.methods["class "+name] == nil {
		return 0
	}
	if f.classes[name] == nil {
		o := f.newObject("class "+name, nil)
		o.isClass = true
		f.classes[name] = o
	}
	return f.classes[name].address
}

// newObject makes an object with one reference, owned by the caller of the method.
func (f *fake) newObject(class string, value any) *object {
	f.next += 16
	o := &object{address: f.next, class: class, refs: 1, value: value}
	f.objects[o.address] = o
	return o
}

// autorelease moves the only reference of a new object to the pool of the thread.
func (f *fake) autorelease(o *object) *object {
	pools := f.pools[syscall.Gettid()]
	if len(pools) == 0 {
		f.fault("a %s is autoreleased without a pool: it leaks", o.class)
		return o
	}
	top := pools[len(pools)-1]
	top.objects = append(top.objects, o)
	return o
}

func (f *fake) pushPool(thread int) uintptr {
	f.next += 16
	f.pools[thread] = append(f.pools[thread], &fakePool{token: f.next})
	return f.next
}

func (f *fake) popPool(thread int, token uintptr) {
	pools := f.pools[thread]
	if len(pools) == 0 || pools[len(pools)-1].token != token {
		f.fault("a pool is popped that is not the top one of its thread")
		return
	}
	if f.pools[thread] = pools[:len(pools)-1]; len(f.pools[thread]) == 0 {
		delete(f.pools, thread)
	}
	for _, o := range pools[len(pools)-1].objects {
		f.release(o)
	}
}

func (f *fake) release(o *object) {
	if o.refs <= 0 {
		f.fault("a %s is released once too often", o.class)
		return
	}
	if o.refs--; o.refs > 0 {
		return
	}
	for _, running := range f.inFlight {
		if b := running.value.(*fakeCommands); slices.Contains(b.uses, o) {
			f.fault("a %s is released while a command buffer uses it that does not retain it", o.class)
			return
		}
	}
	if o.resident != nil && (o.resident.has[o] || o.resident.staged[o]) {
		f.fault("a %s is released that a residency set has", o.class)
	}
	if o.dealloc != nil {
		o.dealloc()
	}
}

// send delivers a message.
func (f *fake) send(c *fakeCall) {
	self, name := f.objects[c.words[0]], f.selectors[c.words[1]]
	f.counts[name]++
	switch {
	case name == "":
		f.fault("a message with a selector that is not registered")
	case c.words[0] == 0:
		f.fault("%s is sent to nil", name)
	case self == nil:
		f.fault("%s is sent to %#x, which is no object", name, c.words[0])
	case self.refs <= 0:
		f.fault("%s is sent to a released %s", name, self.class)
	case self.raw && name != "init":
		f.fault("%s is sent to a %s before init", name, self.class)
	case f.refuses[name]:
	default:
		m := f.method(self, name)
		if m == nil {
			f.fault("-[%s %s]: unrecognized selector", self.class, name)
		} else if f.checkTypes(c, name) {
			m(f, self, c)
		}
	}
}

// method returns the method of an object for a selector.
func (f *fake) method(o *object, name string) method {
	if f.without[name] {
		return nil
	}
	if m := f.methods[o.class][name]; m != nil || o.isClass {
		return m
	}
	return f.methods["NSObject"][name]
}

// object returns an argument that must be a living object of a class.
func (f *fake) object(address uintptr, class, what string) *object {
	o := f.objects[address]
	switch {
	case address == 0:
		f.fault("%s is nil", what)
	case o == nil:
		f.fault("%s is %#x, which is no object", what, address)
	case o.refs <= 0:
		f.fault("%s is a released %s", what, o.class)
	case o.class != class:
		f.fault("%s is a %s instead of a %s", what, o.class, class)
	default:
		return o
	}
	return nil
}

// fakeMethods returns the methods of every class.
func fakeMethods() map[string]map[string]method {
	all := map[string]map[string]method{
		"NSObject": {
			"release": func(f *fake, self *object, c *fakeCall) { f.release(self) },
			"retain":  func(f *fake, self *object, c *fakeCall) { self.refs++; c.value = self.address },
			"respondsToSelector:": func(f *fake, self *object, c *fakeCall) {
				c.value = 0xabcdef00 // a BOOL is one byte of the register
				if f.method(self, f.selectors[c.arg(0)]) != nil {
					c.value++
				}
			},
		},
		"class NSString": {"stringWithUTF8String:": func(f *fake, self *object, c *fakeCall) {
			c.value = f.autorelease(f.newString(cText(c.arg(0)))).address
		}},
		"NSString": {"UTF8String": func(f *fake, self *object, c *fakeCall) {
			c.value = uintptr(unsafe.Pointer(&self.value.([]byte)[0]))
		}},
		"NSError": {"localizedDescription": func(f *fake, self *object, c *fakeCall) {
			c.value = f.autorelease(f.newString(self.value.(string))).address
		}},
	}
	maps.Copy(all, fakeDeviceMethods())
	maps.Copy(all, fakeLibraryMethods())
	maps.Copy(all, fakeCommandMethods())
	maps.Copy(all, fakeResidencyMethods())
	return all
}

// newString makes a string with bytes that are overwritten when it is released.
func (f *fake) newString(s string) *object {
	b := append([]byte(s), 0)
	var pin runtime.Pinner
	pin.Pin(&b[0])
	o := f.newObject("NSString", b)
	o.dealloc = func() {
		copy(b, slices.Repeat([]byte{'?'}, len(b)-1))
		pin.Unpin()
	}
	return o
}

// text returns the characters of a string.
func (o *object) text() string {
	b := o.value.([]byte)
	return string(b[:len(b)-1])
}

// setError returns an error through an NSError** argument.
func (f *fake) setError(address uintptr, text string) {
	if address == 0 {
		f.fault("there is no place for an error")
		return
	}
	*(*uintptr)(cPointer(address)) = f.autorelease(f.newObject("NSError", text)).address
}

// spoilError writes garbage to an NSError** argument, as successful methods may.
func (f *fake) spoilError(address uintptr) {
	if address != 0 {
		*(*uintptr)(cPointer(address)) = 0xbad
	}
}

// allocate returns the methods to make objects of a class with alloc and init.
func allocate(class string, value func() any) map[string]method {
	return map[string]method{"alloc": func(f *fake, self *object, c *fakeCall) {
		o := f.newObject(class, value())
		o.raw = true
		c.value = o.address
	}}
}

// initialize is the method init.
func initialize(f *fake, self *object, c *fakeCall) {
	self.raw = false
	c.value = self.address
}
