package mtl

import (
	"fmt"
	"runtime"
	"unsafe"
)

// scope sends messages from one goroutine. From openScope to closeScope it locks the goroutine to its thread, keeps an
// autorelease pool open there, because pools belong to threads, and owns the memory that C reads and writes, which must
// not move. Every message of this package goes through a scope.
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

func (o *objc) openScope() *scope {
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

// closeScope releases the autoreleased objects. It panics on another goroutine than that of openScope.
func (s *scope) closeScope() {
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
	s.checkWordCount(sel, len(args))
	n := 2 + copy(s.words[2:], args)
	s.words[0], s.words[1] = uintptr(to), s.selectors[sel]
	return callC(s.msgSend, s.words[:n])
}

func (s *scope) sendSizes(to id, sel selector, a, b size) {
	s.checkWordCount(sel, 6)
	s.sizes = [2]size{a, b}
	s.words[0], s.words[1] = uintptr(to), s.selectors[sel]
	callC(s.msgSend, s.words[:putSizes(runtime.GOARCH, &s.words, &s.sizes)])
}

// checkWordCount panics if a message has a wrong number of argument words for its method: C would read undefined words.
func (s *scope) checkWordCount(sel selector, words int) {
	if words != s.takes[sel] {
		panic(fmt.Sprintf("metal/mtl: %s is sent with %d words of arguments", selectors[sel].name, words))
	}
}

func (s *scope) sendForSeconds(of id, sel selector) float64 {
	s.checkWordCount(sel, 0)
	return s.sendSeconds(uintptr(of), s.selectors[sel])
}

func (s *scope) sendForSize(of id, sel selector) size {
	s.checkWordCount(sel, 0)
	return s.sendSize(uintptr(of), s.selectors[sel])
}

// newObject returns an object that the caller releases.
func (s *scope) newObject(c class) id {
	return id(s.send(id(s.send(s.classes[c], selAlloc)), selInit))
}

// releaseObject releases an object that a method called new, alloc or retain returned. It ignores nil.
func (s *scope) releaseObject(o id) {
	if o != 0 {
		s.send(o, selRelease)
	}
}

// sendForBool sends a message that returns a BOOL: one byte, the others are undefined.
func (s *scope) sendForBool(o id, sel selector, args ...uintptr) bool {
	return s.send(o, sel, args...)&0xff != 0
}

func (s *scope) respondsTo(o id, sel selector) bool {
	return s.sendForBool(o, selRespondsToSelector, s.selectors[sel])
}

// nsString makes an autoreleased NSString. It is nil if text is not UTF-8; a zero byte ends it.
func (s *scope) nsString(text string) id {
	return id(withCString(text, func(p uintptr) uintptr {
		return s.send(s.classes[classString], selStringWithUTF8String, p)
	}))
}

// goString returns the characters of an NSString, "" for nil.
func (s *scope) goString(o id) string {
	if o == 0 {
		return ""
	}
	p := s.send(o, selUTF8String)
	if p == 0 {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(cPointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(cPointer(p)), n))
}

func (s *scope) errorWord() uintptr {
	s.err = 0
	return uintptr(unsafe.Pointer(&s.err))
}

// errorReason returns the description of the NSError of a failed call. It is valid only after a call that returned nil:
// other calls may leave anything in its place.
func (s *scope) errorReason() string {
	return s.describeError(s.err)
}

func (s *scope) describeError(e id) string {
	if e != 0 {
		if t := s.goString(id(s.send(e, selLocalizedDescription))); t != "" {
			return t
		}
	}
	return "Metal gives no reason"
}
