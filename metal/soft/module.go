package soft

import (
	"strings"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// module is a compiled library in memory. Its exports are marked EXPORT in translate/msl/runtime.cpp.
type module struct {
	translate.Description
	path   string // of its file
	handle uintptr
	entry  uintptr // msl_run
	set    func(constant uint32, value uintptr)
	memory []int // bytes that each kernel declares
	active *pipeline
	lines  *translate.Lines // nil before first use
}

// findSourceLine returns the file and line of the instruction at pc, an offset in the module.
func (m *module) findSourceLine(pc uint64) (string, int) {
	if m.lines == nil {
		m.lines = &translate.Lines{}
		if t, err := translate.ReadLines(m.path); err == nil { // without lines, faults are reported without a place
			m.lines = t
		}
	}
	return m.lines.Find(pc)
}

func readCString(at uint64) string {
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
