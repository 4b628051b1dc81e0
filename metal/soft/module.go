package soft

import (
	"strings"
	"unsafe"
)

// module is a compiled library in memory.
type module struct {
	description
	path   string // of the file that it came from
	handle uintptr
	entry  uintptr // msl_run
	set    func(constant uint32, value uintptr)
	memory []int // bytes that each kernel declares
	active *pipeline
	lines  *lineTable
}

// text returns the string at an address of the module.
func text(at uint64) string {
	if at == 0 {
		return ""
	}
	p := *(**byte)(unsafe.Pointer(&at))
	var b strings.Builder
	for i := 0; ; i++ {
		c := *(*byte)(unsafe.Add(unsafe.Pointer(p), i))
		if c == 0 {
			return b.String()
		}
		b.WriteByte(c)
	}
}
