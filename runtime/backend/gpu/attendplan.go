package gpu

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// splitCount returns the number of parts into which the visible keys of a row are divided, in a pass of few rows. It
// depends only on their number and the shape of the model, because the bits of the result depend on it.
//
// A threadgroup takes one split of one key/value head. So there are fewest/kvHeads splits, as long as each has at least
// 10 keys: with 2 heads there are 10 for 100 keys, one threadgroup for each of 20 cores, and 20 from 191 keys on, two
// for each.
//
// More splits would make joining them more costly and save nothing. Each split is another row of results that all
// threadgroups of ProjectAdd fetch from caches: 4 · 896 bytes · 56 = 0.2 MB with the shape of Qwen2.5-0.5B, 0.5 µs of
// an M1. For 4,000 keys, 32 splits instead of 20 are 64 threadgroups, of which some of 20 cores have 4 and others 3:
// the longest takes 4 · 125 keys instead of 2 · 200, while 2 threadgroups already have 2 · 8 KB of keys and values in
// flight (attendFetch of bench/metalplan for each of 4 simdgroups), twice what a core's share of the bandwidth needs
// (divideMatrix).
func splitCount(visible, kvHeads int) int {
	const fewestKeys = 10
	return max(1, min(kernels.MaxSplits, ceilDiv(fewest, kvHeads), ceilDiv(visible, fewestKeys)))
}

// attendPlan is the plan of attention for the shape of a store.
type attendPlan struct {
	heads  int // query heads that a threadgroup takes together in a pass of few rows: 1, 2, 4 or 8
	memory int // bytes of threadgroup memory
	bands  int // of 8 rows to a tile in a longer pass
	room   int // elements of a head that the kernels have room for: 64, 128 or 256
	blocks int // bytes of threadgroup memory for keys and values in a longer pass
}

// maxHead is the longest head that the kernels have registers for.
const maxHead = 256

func planAttend(group, room int) attendPlan {
	p := attendPlan{heads: 1, bands: 1, room: 64}
	for p.room < room {
		p.room *= 2
	}
	most := 8
	if p.room == maxHead { // threadgroup memory has room for 4
		most = 4
	}
	for p.heads < min(group, most) {
		p.heads *= 2
	}
	for p.bands*group*2 <= 8 {
		p.bands *= 2
	}
	p.memory = 4*p.heads*p.room*(1+kernels.AttendSimds) + 8*p.heads*kernels.AttendSimds
	// of keys and values in F16, or of one of both in F32; of heads of 256, of half of them
	p.blocks = 4 * kernels.BlockSlots * min(p.room, maxHead/2)
	return p
}

// tileRows returns the number of rows of a longer pass that share the keys and values that a threadgroup fetches, with
// all the query heads that it takes.
func (p attendPlan) tileRows() int { return kernels.BandRows * p.bands }

// wideParts returns the number of threadgroups that share the query heads of a group in a pass with the given number of
// rows: as few as threads and threadgroup memory allow, because each fetches keys and values for itself, but more if
// there would be too few to fill the cores.
func (p attendPlan) wideParts(rows, group, kvHeads, threads, memory int) (int, error) {
	simds := min(threads/32, (memory-p.blocks)/(4*kernels.BandFloats))
	if simds < p.bands {
		return 0, fmt.Errorf("attention: %d threads and %d bytes of a threadgroup are too few", threads, memory)
	}
	parts := ceilDiv(group, simds/p.bands)
	for parts < group && ceilDiv(rows, p.tileRows())*kvHeads*parts < fewest {
		parts++
	}
	return parts, nil
}

func (p *pass) encodeAttend(layer int) {
	c, s := p.kv.c, &p.d.scratch
	group, plan := c.Heads/c.KVHeads, p.kv.plan
	keys, values := p.kv.layerBindings(layer)
	p.work += 2 * p.frame.sees * c.Heads * c.HeadSize
	if isWide(p.n) {
		p.encodeAttendWide(keys, values)
		return
	}
	args := kernels.AttendArgs{
		Heads: uint32(c.Heads), Group: uint32(group), Parts: uint32(ceilDiv(group, plan.heads)),
		Head: uint32(c.HeadSize), HeadRoom: uint32(p.kv.room),
		Slots: uint32(c.Slots), MaxSplits: uint32(p.frame.splits), Gated: boolToUint32(c.Gated),
		Scale: p.kv.attentionScale(),
	}
	p.encodeDispatch(dispatch{
		pipeline: p.plainPipeline(attendKernel(plan.heads, plan.room)),
		groups:   metal.Size{X: p.frame.splits, Y: c.KVHeads * int(args.Parts), Z: p.n}, threads: kernels.AttendThreads,
		buffers: []binding{startOf(s.q), keys, values, p.frame.rows, p.frame.spans, startOf(s.parts), startOf(s.ml)},
		args:    argBytes(&args), memory: []int{plan.memory},
	})
}

func (p *pass) encodeAttendWide(keys, values binding) {
	c, s := p.kv.c, &p.d.scratch
	group, plan := c.Heads/c.KVHeads, p.kv.plan
	pipeline := p.plainPipeline(attendWideKernel(plan.room))
	if p.err != nil {
		return
	}
	threads := min(pipeline.Threads(), p.d.limits.Threads)
	memory := p.d.limits.ThreadgroupMemory - pipeline.ThreadgroupMemory() - 128 // it is rounded up
	parts, err := plan.wideParts(p.n, group, c.KVHeads, threads, memory)
	if err != nil {
		p.recordError(err)
		return
	}
	args := kernels.AttendWideArgs{
		Rows: uint32(p.n), Heads: uint32(c.Heads), Group: uint32(group), PartHeads: uint32(ceilDiv(group, parts)),
		Parts: uint32(parts), Bands: uint32(plan.bands), Head: uint32(c.HeadSize), HeadRoom: uint32(p.kv.room),
		Slots: uint32(c.Slots), Gated: boolToUint32(c.Gated), Scale: p.kv.attentionScale(),
	}
	simds := plan.bands * int(args.PartHeads)
	p.encodeDispatch(dispatch{
		pipeline: pipeline, groups: metal.Size{X: ceilDiv(p.n, plan.tileRows()), Y: c.KVHeads * parts, Z: 1},
		threads: 32 * simds,
		buffers: []binding{startOf(s.q), keys, values, p.frame.tiles, p.frame.blocks, p.frame.masks, startOf(s.parts)},
		args:    argBytes(&args), memory: []int{plan.blocks + 4*kernels.BandFloats*simds},
	})
}

// tiling lists the blocks of slots that the rows of a long pass see, as attendwide.metal reads it. Its memory is
// reused.
type tiling struct {
	tiles, blocks []uint32
	masks         []uint32
	seen          []uint32 // [block][1 + rows of a tile]: what any row sees, and each
}

func (g *tiling) fillTiles(rows []backend.Row, tileRows int) {
	g.tiles, g.blocks, g.masks = g.tiles[:0], g.blocks[:0], g.masks[:0]
	for len(rows) > 0 {
		n := min(tileRows, len(rows))
		first := len(g.blocks) / 2
		g.addTile(rows[:n], tileRows)
		g.tiles = append(g.tiles, uint32(first), uint32(len(g.blocks)/2))
		rows = rows[n:]
	}
}

func (g *tiling) addTile(rows []backend.Row, tileRows int) {
	const slots, all = kernels.BlockSlots, ^uint32(0)
	blocks := 0
	for _, r := range rows {
		for _, s := range r.See {
			blocks = max(blocks, ceilDiv(int(s.To), slots))
		}
	}
	stride := 1 + tileRows
	if n := blocks * stride; cap(g.seen) < n {
		g.seen = make([]uint32, n)
	} else {
		g.seen = g.seen[:n]
		clear(g.seen)
	}
	for i, r := range rows {
		for _, s := range r.See {
			for from := int(s.From); from < int(s.To); {
				b := from / slots
				to := min(int(s.To), (b+1)*slots)
				bits := all >> (slots - (to - from)) << (from % slots)
				g.seen[b*stride] |= bits
				g.seen[b*stride+1+i] |= bits
				from = to
			}
		}
	}
	for b := range blocks {
		seen := g.seen[b*stride:][:stride]
		if seen[0] == 0 {
			continue
		}
		mask := uint32(0)
		for _, bits := range seen[1 : 1+len(rows)] {
			if bits != all {
				mask = uint32(len(g.masks) + 1)
			}
		}
		if mask != 0 {
			g.masks = append(g.masks, seen...)
		}
		g.blocks = append(g.blocks, uint32(b*slots), mask)
	}
}
