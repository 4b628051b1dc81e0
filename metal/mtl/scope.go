package mtl

import (
	"fmt"
	"runtime"
	"unsafe"
)

// scope sends messages from one goroutine. From begin to end it locks the goroutine to its thread, keeps an autorelease
// pool open there, because pools belong to threads, and owns the memory that C reads and writes, which must not move.
// Every message of this package goes through a scope.
type scope struct {
	*objc
	pool  *pool
	pin   runtime.Pinner
	words [maxWords]uintptr // the arguments of the call, which need no allocation here
	sizes [2]size           // arguments that arm64 passes by address
	err   id                // what an NSError** points to
}

// maxWords is the maximum number of words of a call: receiver, selector, four registers and two sizes.
const maxWords = 12

// pool is the autorelease pool of a thread and the number of open scopes on it. There are several if one goroutine
// fills two command buffers in turn; the last one to end releases the pool.
type pool struct {
	thread, token uintptr
	scopes        int
}

func (o *objc) begin() *scope {
	runtime.LockOSThread()
	thread := callC(o.threadSelf, nil)
	o.mu.Lock()
	p := o.pools[thread]
	if p == nil {
		p = &pool{thread: thread}
		o.pools[thread] = p
	}
	o.mu.Unlock()
	if p.scopes++; p.scopes == 1 {
		p.token = callC(o.poolPush, nil)
	}
	s := &scope{objc: o, pool: p}
	s.pin.Pin(s)
	return s
}

// end releases the autoreleased objects. It panics on another goroutine than that of begin.
func (s *scope) end() {
	if thread := callC(s.threadSelf, nil); thread != s.pool.thread {
		panic("metal/mtl: a command buffer is ended by another goroutine than began it")
	}
	if s.pool.scopes--; s.pool.scopes == 0 {
		s.words[0] = s.pool.token
		callC(s.poolPop, s.words[:1])
		s.mu.Lock()
		delete(s.pools, s.pool.thread)
		s.mu.Unlock()
	}
	s.pin.Unpin()
	runtime.UnlockOSThread()
}

// send sends a message. The arguments are integers, objects and addresses; an NSRange is two integers, because it is
// passed in two registers. An address must be of memory that is pinned or that C owns.
func (s *scope) send(to id, sel selector, args ...uintptr) uintptr {
	s.check(sel, len(args))
	n := 2 + copy(s.words[2:], args)
	s.words[0], s.words[1] = uintptr(to), s.selectors[sel]
	return callC(s.msgSend, s.words[:n])
}

// sendSizes sends a message with two MTLSize arguments.
func (s *scope) sendSizes(to id, sel selector, a, b size) {
	s.check(sel, 6)
	s.sizes = [2]size{a, b}
	s.words[0], s.words[1] = uintptr(to), s.selectors[sel]
	callC(s.msgSend, s.words[:putSizes(runtime.GOARCH, &s.words, &s.sizes)])
}

// check panics if a message has a wrong number of argument words for its method: C would read undefined words.
func (s *scope) check(sel selector, words int) {
	if words != s.takes[sel] {
		panic(fmt.Sprintf("metal/mtl: %s is sent with %d words of arguments", selectors[sel].name, words))
	}
}

// seconds sends a message that returns a double.
func (s *scope) seconds(of id, sel selector) float64 {
	s.check(sel, 0)
	return s.sendSeconds(uintptr(of), s.selectors[sel])
}

// size sends a message that returns an MTLSize.
func (s *scope) size(of id, sel selector) size {
	s.check(sel, 0)
	return s.sendSize(uintptr(of), s.selectors[sel])
}

// make returns a new object of a class. The caller releases it.
func (s *scope) make(c class) id {
	return id(s.send(id(s.send(s.classes[c], selAlloc)), selInit))
}

// release releases an object that a method called new, alloc or retain returned. It ignores nil.
func (s *scope) release(o id) {
	if o != 0 {
		s.send(o, selRelease)
	}
}

// yes sends a message that returns a BOOL: one byte, the others are undefined.
func (s *scope) yes(o id, sel selector, args ...uintptr) bool {
	return s.send(o, sel, args...)&0xff != 0
}

// responds reports whether the system's version of an object's class has a method.
func (s *scope) responds(o id, sel selector) bool {
	return s.yes(o, selRespondsToSelector, s.selectors[sel])
}

// string makes an autoreleased NSString. It is nil if text is not UTF-8; a zero byte ends it.
func (s *scope) string(text string) id {
	return id(withCString(text, func(p uintptr) uintptr {
		return s.send(s.classes[classString], selStringWithUTF8String, p)
	}))
}

// text returns the characters of an NSString, "" for nil.
func (s *scope) text(o id) string {
	if o == 0 {
		return ""
	}
	p := s.send(o, selUTF8String)
	if p == 0 {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(at(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(at(p)), n))
}

// errorWord returns the address of a cleared word for an NSError.
func (s *scope) errorWord() uintptr {
	s.err = 0
	return uintptr(unsafe.Pointer(&s.err))
}

// reason returns the description of the NSError of a failed call. It is valid only after a call that returned nil:
// other calls may leave anything in its place.
func (s *scope) reason() string {
	return s.describe(s.err)
}

func (s *scope) describe(e id) string {
	if e != 0 {
		if t := s.text(id(s.send(e, selLocalizedDescription))); t != "" {
			return t
		}
	}
	return "Metal gives no reason"
}
