package mtl

import (
	"fmt"
	"runtime"
	"structs"
	"sync"
	"unsafe"
)

// id is an Objective-C object, or 0 for nil.
type id uintptr

// size is an MTLSize.
type size struct {
	_                    structs.HostLayout
	width, height, depth uintptr
}

// objc is the part of the Objective-C runtime that this package uses: functions, selectors and classes.
type objc struct {
	msgSend            uintptr
	poolPush, poolPop  uintptr
	threadSelf         uintptr
	createSystemDevice uintptr
	pageSize           int

	selectors [selectorCount]uintptr
	takes     [selectorCount]int // words of arguments
	classes   [classCount]id

	sendSeconds func(to, selector uintptr) float64
	sendSize    func(to, selector uintptr) size

	mu    sync.Mutex
	pools map[uintptr]*pool // by thread
}

func openObjC(paths []string) (*objc, error) {
	o := &objc{pools: map[uintptr]*pool{}}
	var libraries []uintptr
	for _, p := range paths {
		l, err := openDylib(p)
		if err != nil {
			return nil, err
		}
		libraries = append(libraries, l)
	}
	var getClass, registerName, getPageSize uintptr
	for name, address := range map[string]*uintptr{
		"objc_msgSend":                 &o.msgSend,
		"objc_autoreleasePoolPush":     &o.poolPush,
		"objc_autoreleasePoolPop":      &o.poolPop,
		"objc_getClass":                &getClass,
		"sel_registerName":             &registerName,
		"MTLCreateSystemDefaultDevice": &o.createSystemDevice,
		"pthread_self":                 &o.threadSelf,
		"getpagesize":                  &getPageSize,
	} {
		var err error
		if *address, err = findSymbol(libraries, name); err != nil {
			return nil, err
		}
	}
	o.bindSeconds()
	if err := o.bindSize(libraries); err != nil {
		return nil, err
	}
	o.pageSize = int(int32(callC(getPageSize, nil)))
	return o, o.registerSelectors(getClass, registerName)
}

func (o *objc) registerSelectors(getClass, registerName uintptr) error {
	for i, s := range selectors {
		o.selectors[i] = withCString(s.name, func(p uintptr) uintptr { return callC(registerName, []uintptr{p}) })
		for _, t := range splitEncoding(s.types)[1:] {
			o.takes[i] += wordsOf(t)
		}
	}
	for i, c := range classes {
		o.classes[i] = id(withCString(c.name, func(p uintptr) uintptr { return callC(getClass, []uintptr{p}) }))
		if o.classes[i] == 0 && !c.newer {
			return fmt.Errorf("no Objective-C class %s", c.name)
		}
	}
	return nil
}

// withCString calls f with the address of s, terminated by a zero byte, in memory that does not move.
func withCString(s string, f func(uintptr) uintptr) uintptr {
	b := append([]byte(s), 0)
	var pin runtime.Pinner
	pin.Pin(&b[0])
	defer pin.Unpin()
	return f(uintptr(unsafe.Pointer(&b[0])))
}

func cPointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
