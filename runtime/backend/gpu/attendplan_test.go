package gpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestSplits: the number of threadgroups that attend to a row, for models with 1, 2, 4 and 8 KV heads. From 100 keys
// on, each of 20 cores has one; from 191 on, two.
func TestSplits(t *testing.T) {
	for _, c := range []struct{ visible, kvHeads, splits int }{
		{1, 2, 1}, {10, 2, 1}, {11, 2, 2}, {65, 2, 7}, {100, 2, 10}, {190, 2, 19}, {191, 2, 20}, {1000, 2, 20},
		{4000, 2, 20}, {32768, 2, 20},
		{100, 1, 10}, {1000, 1, 32}, {100, 4, 10}, {1000, 4, 10}, {4000, 4, 10}, {100, 8, 5}, {1000, 8, 5},
	} {
		assert.Equal(t, c.splits, splitCount(c.visible, c.kvHeads), "%+v", c)
	}
	for kvHeads := 1; kvHeads <= 16; kvHeads++ {
		before := 1
		for n := 1; n < 6000; n++ {
			s := splitCount(n, kvHeads)
			require.True(t, s >= before && s <= n && s <= kernels.MaxSplits, "%d keys, %d heads", n, kvHeads)
			if n > 190 && kvHeads > 1 {
				require.GreaterOrEqual(t, s*kvHeads, fewest, "%d keys, %d heads", n, kvHeads)
			}
			before = s
		}
	}
}

// TestPlanAttend: the resources of a threadgroup, for the shapes of Qwen2.5 and at the limits.
func TestPlanAttend(t *testing.T) {
	for _, c := range []struct {
		group, room int
		want        attendPlan
	}{
		{7, 64, attendPlan{heads: 8, memory: 8*64*20 + 256, bands: 1, room: 64, blocks: 8192}},     // 0.5B
		{6, 128, attendPlan{heads: 8, memory: 8*128*20 + 256, bands: 1, room: 128, blocks: 16384}}, // 1.5B
		{1, 8, attendPlan{heads: 1, memory: 64*20 + 32, bands: 8, room: 64, blocks: 8192}},
		{2, 24, attendPlan{heads: 2, memory: 2*64*20 + 64, bands: 4, room: 64, blocks: 8192}},
		{4, 256, attendPlan{heads: 4, memory: 4*256*20 + 128, bands: 2, room: 256, blocks: 16384}}, // Qwen3.5 0.8B
		{6, 136, attendPlan{heads: 4, memory: 4*256*20 + 128, bands: 1, room: 256, blocks: 16384}},
		{64, 72, attendPlan{heads: 8, memory: 8*128*20 + 256, bands: 1, room: 128, blocks: 16384}},
	} {
		assert.Equal(t, c.want, planAttend(c.group, c.room), "%+v", c)
	}
}

// TestWideParts: the threadgroups of a long pass. One takes all heads of a group, unless there are too few to use all
// cores, or the heads exceed its threads or memory.
func TestWideParts(t *testing.T) {
	const most, memory = 1024, 32768 - 128
	for _, c := range []struct{ rows, group, room, kvHeads, threads, memory, parts int }{
		{512, 7, 64, 2, most, memory, 1},
		{512, 7, 64, 2, 96, memory, 3},
		{512, 7, 64, 2, most, 8192 + 1280, 7},
		{160, 7, 64, 2, most, memory, 1},
		{152, 7, 64, 2, most, memory, 2},
		{9, 7, 64, 2, most, memory, 7},
		{512, 20, 128, 1, most, memory, 2},
		{512, 1, 64, 2, most, memory, 1},
	} {
		got, err := planAttend(c.group, c.room).wideParts(c.rows, c.group, c.kvHeads, c.threads, c.memory)
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, c.parts, got, "%+v", c)
	}
	for _, c := range []struct{ threads, memory int }{{31, memory}, {most, 8192 + 1279}} {
		_, err := planAttend(7, 64).wideParts(512, 7, 2, c.threads, c.memory)
		assert.Error(t, err)
	}
}

// TestTiling: the tables of a long pass contain exactly what each row sees, for any rows. Blocks are ascending, none is
// empty, and only those that all rows of the tile see completely have no masks.
func TestTiling(t *testing.T) {
	racing.Spare(t)
	r := newRand(3)
	var g tiling
	for range 300 {
		rows := randomRows(r)
		tileRows := 8 << r.IntN(4)
		g.fillTiles(rows, tileRows)
		require.Len(t, g.tiles, 2*ceilDiv(len(rows), tileRows))
		for i, row := range rows {
			want := map[int]bool{}
			for _, s := range row.See {
				for j := s.From; j < s.To; j++ {
					want[int(j)] = true
				}
			}
			require.Equal(t, want, tiledSlots(&g, i, tileRows), "row %d", i)
		}
		for tile := range len(g.tiles) / 2 {
			checkTile(t, &g, tile, tileRows, len(rows))
		}
	}
}

// randomRows returns rows that see one prefix and a few more spans each.
func randomRows(r *rand.Rand) []backend.Row {
	rows := make([]backend.Row, 1+r.IntN(40))
	prefix := r.Int32N(150)
	for i := range rows {
		at := prefix
		rows[i].See = []backend.Span{{From: 0, To: prefix}}
		for range r.IntN(4) {
			at += r.Int32N(40)
			to := at + 1 + r.Int32N(70)
			rows[i].See = append(rows[i].See, backend.Span{From: at, To: to})
			at = to
		}
	}
	return rows
}

// tileBits returns the slots of block b that a row sees, a bit each.
func tileBits(g *tiling, b uint32, row, tileRows int) uint32 {
	if mask := g.blocks[2*b+1]; mask != 0 {
		return g.masks[mask+uint32(row%tileRows)]
	}
	return ^uint32(0)
}

// tiledSlots returns the slots that a row sees by the tables of its tile.
func tiledSlots(g *tiling, row, tileRows int) map[int]bool {
	seen := map[int]bool{}
	tile := row / tileRows
	for b := g.tiles[2*tile]; b < g.tiles[2*tile+1]; b++ {
		bits := tileBits(g, b, row, tileRows)
		for j := range kernels.BlockSlots {
			if bits>>j&1 == 1 {
				seen[int(g.blocks[2*b])+j] = true
			}
		}
	}
	return seen
}

// checkTile checks the order of the blocks of a tile, and that they have the masks that they need.
func checkTile(t *testing.T, g *tiling, tile, tileRows, rows int) {
	before := -1
	for b := g.tiles[2*tile]; b < g.tiles[2*tile+1]; b++ {
		slot, mask := int(g.blocks[2*b]), g.blocks[2*b+1]
		require.Greater(t, slot, before)
		before = slot
		some, all := uint32(0), ^uint32(0) // slots that some rows see, and that all rows see
		for i := tile * tileRows; i < min(rows, (tile+1)*tileRows); i++ {
			bits := tileBits(g, b, i, tileRows)
			some, all = some|bits, all&bits
		}
		require.NotZero(t, some)
		require.Equal(t, mask == 0, all == ^uint32(0))
		if mask != 0 {
			require.Equal(t, some, g.masks[mask-1])
		}
	}
}

// TestLongPasses: rows of a tree over a long prefix, some of them on other branches, in passes that are long enough to
// share keys and values; each is compared with the definition.
func TestLongPasses(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture) {
		for _, c := range []backend.KVConfig{
			{Heads: 7, KVHeads: 1, HeadSize: 64, Type: gguf.F16},
			{Heads: 2, KVHeads: 2, HeadSize: 16, Type: gguf.F32},
			{Heads: 9, KVHeads: 1, HeadSize: 72, Type: gguf.F32},
		} {
			const prefix, n = 170, 70
			c.Slots = prefix + 2*n
			s := x.kv(c)
			x.fill(s)
			slots := x.r.Perm(2 * n)
			var rows []backend.Row
			for i := range n {
				slot := int32(prefix + slots[i])
				row := backend.Row{Pos: prefix, Slot: slot, See: []backend.Span{{From: 0, To: int32(prefix - i%3)}}}
				if i > 0 && i%5 > 0 { // a child of another row
					above := rows[x.r.IntN(i)]
					row.Pos, row.See = above.Pos+1, slices.Clone(above.See)
				}
				row.See = append(row.See, backend.Span{From: slot, To: slot + 1})
				rows = append(rows, row)
			}
			x.attend(s, gguf.Q8_0, rows, 1e-3, false)
		}
	})
}

// TestAttendCounts: the bytes that attention fetches, for the shape of Qwen2.5-0.5B. Each key and value is fetched once
// for a row and all heads of its group in short passes, and once for a tile of 8 rows and all heads in long ones.
func TestAttendCounts(t *testing.T) {
	racing.Spare(t)
	for _, c := range []struct{ rows, context, fetched int }{
		{1, 100, 100}, {1, 1000, 1000}, {2, 300, 2 * 299},
		{160, 352, 20*(352-160) + 8*160/2*21/8}, // 20 tiles see the prefix, the tiles before them and themselves
	} {
		dev := OpenMetal(t, soft.Options{Variant: soft.Check}).(*soft.Device)
		d, err := New(dev, Options{})
		require.NoError(t, err)
		x := &fixture{t: t, r: newRand(7), d: d}
		s := x.kv(backend.KVConfig{Slots: 1024, Heads: 14, KVHeads: 2, HeadSize: 64, Type: gguf.F16})
		x.fill(s)
		rows := make([]backend.Row, c.rows)
		for i := range rows {
			slot := int32(c.context - c.rows + i)
			see := []backend.Span{{From: 0, To: slot + 1}}
			if c.rows < 9 { // so that each sees the same number
				see = []backend.Span{{From: 0, To: int32(c.context - c.rows)}, {From: slot, To: slot + 1}}
			}
			rows[i] = backend.Row{Pos: slot, Slot: slot, See: see}
		}
		const in = 32
		h, a := x.tensorOf(c.rows, in), x.tensorOf(c.rows, 896)
		g, _ := x.normOf(in)
		q, k, v := x.tensorOf(c.rows, 896), x.tensorOf(c.rows, 128), x.tensorOf(c.rows, 128)
		wq, _ := x.weightOf(gguf.F32, 896, in)
		wk, _ := x.weightOf(gguf.F32, 128, in)
		wv, _ := x.weightOf(gguf.F32, 128, in)
		require.NoError(t, dev.ResetCounts())
		p := x.begin(s, rows)
		p.NormProject(q, k, v, h, g, wq, wk, wv)
		p.Attend(a, q, k, v, nil, nil, 1)
		require.NoError(t, p.End(t.Context()))
		total := soft.Count{}
		name := "attend_8_64"
		if isWide(c.rows) {
			name = "attend_wide_64"
		}
		for i := 1; i <= 2; i++ { // keys, values
			n := dev.Counts().Bindings[soft.Binding{Pipeline: name, Index: i}]
			total.Read += n.Read
			total.Lines += n.Lines
		}
		assert.Equal(t, int64(c.fetched*2*2*128), total.Read, "%+v", c)
		assert.Equal(t, total.Read, total.Lines*128, fmt.Sprintf("%+v: whole lines", c))
		require.NoError(t, d.Close())
	}
}
