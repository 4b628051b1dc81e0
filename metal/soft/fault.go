package soft

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// FaultKind is a kind of bug.
type FaultKind int

// The kinds. The numbers are those of translate/msl/runtime.h.
const (
	Race           FaultKind = 1  // two threads of a dispatch touch a byte, one writes, and no barrier stands between
	Bounds         FaultKind = 2  // an access outside every buffer and threadgroup variable
	Uninitialised  FaultKind = 3  // a read of threadgroup memory, or of a poisoned buffer, before any write
	ReadOnly       FaultKind = 4  // a write to wrapped or constant memory
	Divergence     FaultKind = 5  // threads that should meet at a barrier or an operation of the simdgroup do not
	Lane           FaultKind = 6  // an operation of the simdgroup asks a thread that does not exist
	Misaligned     FaultKind = 7  // an address that is not a multiple of the type's alignment
	Index          FaultKind = 8  // an index outside an array of known length
	Arithmetic     FaultKind = 9  // a shift, division or sum without meaning
	MissingBarrier FaultKind = 10 // a race between two dispatches of a command buffer
)

// String names the kind.
func (k FaultKind) String() string {
	names := [...]string{"fault", "race", "out of bounds", "uninitialised read", "write to read-only memory",
		"divergence", "no such thread", "misaligned access", "array index", "undefined arithmetic", "missing barrier"}
	if int(k) < len(names) && k > 0 {
		return names[k]
	}
	return names[0]
}

// Fault is a bug of a kernel, or of the order in which kernels are dispatched, found while it ran.
type Fault struct {
	Kind     FaultKind
	Kernel   string
	Other    string // MissingBarrier: the other kernel
	File     string // of the .metal source, as its #line directives say
	Line     int
	Buffer   int    // index of [[buffer]], or of [[threadgroup]] if Variable is set; -1 for none
	Variable string // threadgroup memory: name of the variable or parameter
	Detail   string // the complete message
}

// Error implements error.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d: kernel %s: %s: %s", f.File, f.Line, f.Kernel, f.Kind, f.Detail)
}

func (d *Device) collectFaults(q *dispatch, workers []*worker) error {
	var all []error
	seen := map[Fault]bool{} // several workers may find the same bug
	for _, w := range workers {
		for _, r := range w.copyReports() {
			f := d.newFault(q, r)
			if same := (Fault{Kind: f.Kind, File: f.File, Line: f.Line, Buffer: f.Buffer}); !seen[same] {
				seen[same] = true
				all = append(all, f)
			}
		}
	}
	return errors.Join(all...)
}

func (d *Device) newFault(q *dispatch, r reportC) *Fault {
	p := q.pipeline
	f := &Fault{
		Kind: FaultKind(r.kind), Kernel: p.Name(), Buffer: -1, File: readCString(r.file), Line: int(r.at / 1024),
	}
	if r.file == 0 {
		f.File, f.Line = p.module.findSourceLine(r.pc)
	}
	var b strings.Builder
	switch f.Kind {
	case Race, Bounds, Uninitialised, ReadOnly:
		f.Buffer, f.Variable = int(r.buffer), readCString(r.variable)
		d.describeAccess(&b, q, f, r)
	case Lane:
		fmt.Fprintf(&b, "thread %d asks for thread %d of its simdgroup", r.thread, r.offset)
	case Index:
		fmt.Fprintf(&b, "index %d is out of bounds", r.offset)
	default:
		b.WriteString(readCString(r.detail))
	}
	if r.otherFile != 0 {
		fmt.Fprintf(&b, " (%s:%d)", readCString(r.otherFile), r.otherAt/1024)
	}
	fmt.Fprintf(&b, "; thread %d of threadgroup %d", r.thread, r.group)
	f.Detail = b.String()
	return f
}

func (d *Device) describeAccess(b *strings.Builder, q *dispatch, f *Fault, r reportC) {
	verb := "read"
	if r.write != 0 {
		verb = "write"
	}
	where := "no buffer"
	switch {
	case f.Variable != "":
		where = f.Variable
		if f.Buffer >= 0 {
			f.Variable = q.pipeline.parameterName("threadgroup", f.Buffer)
			where = f.Variable
		}
		where = "threadgroup " + where
	case f.Buffer >= 0:
		where = fmt.Sprintf("buffer %d (%s)", f.Buffer, q.pipeline.parameterName("buffer", f.Buffer))
	}
	fmt.Fprintf(b, "%s of %d bytes at offset %d of %s", verb, r.size, r.offset, where)
	if f.Kind != Race {
		if detail := readCString(r.detail); detail != "" {
			fmt.Fprintf(b, ", %s", detail)
		}
		return
	}
	if other, same := d.dispatchAt(r.otherClock); !same && f.Variable == "" {
		f.Kind, f.Other = MissingBarrier, other.pipeline.Name()
		fmt.Fprintf(b, ", and %s by kernel %s in another dispatch, without a barrier between them",
			readCString(r.detail), f.Other)
		return
	}
	who := "several threads"
	if r.other < translate.MaxThreads {
		who = fmt.Sprintf("thread %d", r.other)
	}
	fmt.Fprintf(b, ", and %s by %s, without a barrier between them", readCString(r.detail), who)
}

// dispatchAt returns the dispatch of the level that was running at a time, and reports whether it is the last.
func (d *Device) dispatchAt(clock uint32) (startedDispatch, bool) {
	i := sort.Search(len(d.level), func(i int) bool { return d.level[i].clock > clock })
	i = max(i-1, 0)
	return d.level[i], i == len(d.level)-1
}

func (p *pipeline) parameterName(kind string, index int) string {
	for _, a := range p.Params {
		if a.Kind == kind && a.Index == index {
			return a.Name
		}
	}
	return ""
}
