package main

// prefetched is the number of bytes that PrefetchNext prefetches at a time.
const prefetched = 320

// PrefetchNext prefetches the next memory at p, times times, unless the end is reached.
func (k *Kernel) PrefetchNext(p Reg, end any, times int) {
	done := k.Label("prefetched")
	for range times {
		k.Op("CMPQ", p, end)
		k.Op("JGE", done)
		for line := 0; line < prefetched; line += 64 {
			k.Op("PREFETCHT0", At(p).Plus(line))
		}
		k.Op("ADDQ", prefetched, p)
	}
	k.Place(done)
}

// keepPrefetch stores the prefetch arguments, at args; prefetchNext prefetches once by them.
func (k *Kernel) keepPrefetch(args, r Reg) {
	k.Load(args, "prefetch", r)
	k.Op("MOVQ", r, k.Slot("prefetch"))
	k.Op("ADDQ", k.Field(args, "prefetchBytes"), r)
	k.Op("MOVQ", r, k.Slot("prefetchEnd"))
}

func (k *Kernel) prefetchNext(p Reg) {
	k.Op("MOVQ", k.Slot("prefetch"), p)
	k.PrefetchNext(p, k.Slot("prefetchEnd"), 1)
	k.Op("MOVQ", p, k.Slot("prefetch"))
}

// PrefetchLine prefetches the line at m, which a loop reads later; the distance grows. The CPU's own prefetching stops
// at the end of a page, and on AMD's Zen 4 stops almost completely when other pages are read alternately with the
// weights, such as those of long activations. A request into the first-level cache occupies one of its few buffers
// during the whole memory latency, which halves the bandwidth. A request into the second level does not, but many such
// requests are dropped: so it is made twice. It never faults.
func (k *Kernel) PrefetchLine(m Mem) {
	k.Op("PREFETCHT1", m.Plus(16384))
	k.Op("PREFETCHT1", m.Plus(8192))
	k.Op("PREFETCHT0", m)
}

// prefetcher is how far a kernel has prefetched the memory that it reads next: as much as it loads, in lines between
// the load instructions, because many prefetches at once would delay the loads.
type prefetcher struct {
	at           Reg    // place, loaded from kept with the first line if that is not empty
	kept         string // where it is kept
	bytes, lines int    // loaded, and lines of 64 prefetched, since at was set
}

// Loaded notes that a kernel loads the given number of bytes, and prefetches a line if one is due. It may prefetch
// none.
func (k *Kernel) Loaded(bytes int) {
	p := k.prefetching
	if p == nil {
		return
	}
	if p.bytes == 0 && p.kept != "" {
		k.Op("MOVQ", p.kept, p.at)
	}
	p.bytes += bytes
	if 64*p.lines < p.bytes {
		k.PrefetchLine(At(p.at).Plus(64 * p.lines))
		p.lines++
	}
}

// EndPrefetch prefetches the lines that are due and advances by the loaded bytes.
func (k *Kernel) EndPrefetch() {
	p := k.prefetching
	if p == nil || p.bytes == 0 {
		return
	}
	for 64*p.lines < p.bytes {
		k.Loaded(0)
	}
	k.Op("ADDQ", p.bytes, p.at)
	if p.kept != "" {
		k.Op("MOVQ", p.at, p.kept)
	}
	p.bytes, p.lines = 0, 0
}
