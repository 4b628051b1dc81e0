package main

import "math/bits"

// fetched is how many bytes PrefetchNext fetches at a time.
const fetched = 320

// PrefetchNext fetches what comes next at p, some times, unless that is the end.
func (k *Kernel) PrefetchNext(p Reg, end any, times int) {
	done := k.Label("fetched")
	for range times {
		k.Op("CMPQ", p, end)
		k.Op("JGE", done)
		for line := 0; line < fetched; line += 64 {
			k.Op("PREFETCHT0", At(p).Plus(line))
		}
		k.Op("ADDQ", fetched, p)
	}
	k.Place(done)
}

// Prefetch fetches the line at m, from further and further away: what a loop reads next. The CPU's own prefetching
// stops at the end of a page, and on AMD's Zen 4 nearly all of it once other pages are read alternately with the weights,
// as those of long activations are. What is asked for into the first level then waits in one of its few buffers for all
// of the time that memory takes, which is half of the bandwidth; asked for into the second it does not, but many such
// requests come to nothing: so it is asked twice. Never a fault.
func (k *Kernel) PrefetchLine(m Mem) {
	k.Op("PREFETCHT1", m.Plus(16384))
	k.Op("PREFETCHT1", m.Plus(8192))
	k.Op("PREFETCHT0", m)
}

// RowPointers sets panelRows, of which there are SI and the bytes of a row, DI.
func (k *Kernel) RowPointers() {
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	k.Op("LEAQ", At(DI).Times(DI, 2), R8)
	if k.Set.Outputs() == 16 {
		k.Op("LEAQ", At(DI).Times(DI, 4), R10)
		k.Op("LEAQ", At(R8).Times(DI, 4), R11)
	}
}

// RowBytes sets to to the bytes of a row of so many columns.
func (k *Kernel) RowBytes(columns, to Reg) {
	b := k.Format.Block()
	k.Op("MOVQ", columns, to)
	k.Op("SHRQ", log2(b.Columns), to)
	k.Op("IMUL3Q", b.Bytes, to, to)
}

// Return ends the microkernel.
func (k *Kernel) Return() {
	k.Op("VZEROUPPER")
	k.Op("RET")
}

// prefetcher is how far a kernel has fetched what it reads next: as much as it loads, by lines that stand between the
// instructions that load, as many at once would keep these waiting.
type prefetcher struct {
	at           Reg    // place, loaded from kept with the first line if that is not empty
	kept         string // where it is kept
	bytes, lines int    // loaded, and lines of 64 fetched, since at was set
}

// Loaded says that a kernel loads so many bytes, and fetches a line if one is due; none may be loaded.
func (k *Kernel) Loaded(bytes int) {
	a := k.prefetching
	if a == nil {
		return
	}
	if a.bytes == 0 && a.kept != "" {
		k.Op("MOVQ", a.kept, a.at)
	}
	a.bytes += bytes
	if 64*a.lines < a.bytes {
		k.PrefetchLine(At(a.at).Plus(64 * a.lines))
		a.lines++
	}
}

// EndPrefetch fetches the lines that are due and moves on by what was loaded.
func (k *Kernel) EndPrefetch() {
	a := k.prefetching
	if a == nil || a.bytes == 0 {
		return
	}
	for 64*a.lines < a.bytes {
		k.Loaded(0)
	}
	k.Op("ADDQ", a.bytes, a.at)
	if a.kept != "" {
		k.Op("MOVQ", a.at, a.kept)
	}
	a.bytes, a.lines = 0, 0
}

// Aligned is some bytes of the stack at a multiple of a register's width, by a register that AlignStack sets.
func (k *Kernel) Aligned(stack Reg, bytes int) Mem {
	k.aligned += bytes
	return At(stack).Plus(k.aligned - bytes)
}

// AlignStack sets the register; no Local follows.
func (k *Kernel) AlignStack(stack Reg) {
	width := k.Set.Width()
	k.Op("LEAQ", At(SP).Plus(k.frame+width-1), stack)
	k.Op("ANDQ", -width, stack)
	k.frame += k.aligned + width
}

func log2(n int) int { return bits.TrailingZeros(uint(n)) }
