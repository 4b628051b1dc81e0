package gpu

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// frame holds the kernels' input about the rows of one pass, in one buffer, and their output. Each pass in flight has
// its own frame; all other memory is shared by passes, which run one after the other on the device.
type frame struct {
	buffer growableBuffer
	result growableBuffer // output of the head's merge, with the next token first
	logits growableBuffer // [wanted rows, vocabulary]
	tokens binding        // [T] token ids
	slots  binding        // [T] KV slots
	rows   binding        // [T] kernels.AttendRow
	spans  binding        // [from, to) of all rows
	angles binding        // [T, Dh/2] cos and sin of pos·base^(-2i/R), and 1 and 0 from R/2 on
	splits int            // maximum splits of a row
	sees   int            // slots that the rows see, all together
	tiling tiling
	rule   rulePlan // of layers with recurrent states, whose tables are in
	tables growableBuffer
	tiles  binding // of tiling, as blocks and masks
	blocks binding
	masks  binding

	args []metal.Buffer // arguments of dispatches, in pieces of argsLength bytes
	used int            // bytes of these
}

func (f *frame) closeBuffers() {
	f.buffer.closeBuffer()
	f.result.closeBuffer()
	f.logits.closeBuffer()
	f.tables.closeBuffer()
	for _, b := range f.args {
		b.Close()
	}
	f.args = nil
}

const (
	argsLength = 16 << 10
	argsAlign  = 256 // enough for the constant memory of any GPU
)

// storeArgs stores the arguments of a dispatch until the pass is over. They are bound together with the buffers, which
// saves a message.
func (f *frame) storeArgs(d *Device, args []byte) (binding, error) {
	if f.used%argsLength+len(args) > argsLength {
		f.leavePiece()
	}
	piece, at := f.used/argsLength, f.used%argsLength
	if piece == len(f.args) {
		b, err := d.metal.NewBuffer(argsLength)
		if err != nil {
			return binding{}, err
		}
		f.args = append(f.args, b)
	}
	copy(f.args[piece].Bytes()[at:], args)
	f.used += ceilDiv(len(args), argsAlign) * argsAlign
	return binding{f.args[piece], at}, nil
}

// leavePiece has the next arguments stored in another buffer than those so far.
func (f *frame) leavePiece() { f.used = ceilDiv(f.used, argsLength) * argsLength }

// binding is a place in a buffer.
type binding struct {
	b      metal.Buffer
	offset int
}

// fillRows writes the frame for rows. In a long pass the keys of a row are not split.
func (f *frame) fillRows(d *Device, store *kv, rows []backend.Row) error {
	c := store.c
	half, spans := c.HeadSize/2, 0
	for _, r := range rows {
		spans += len(r.See)
	}
	n := len(rows)
	tiled := rows
	if !isWide(n) {
		tiled = nil
	}
	f.tiling.fillTiles(tiled, store.plan.tileRows())
	tables := [][]uint32{f.tiling.tiles, f.tiling.blocks, f.tiling.masks}
	sizes := []int{4 * n, 4 * n, 16 * n, 8 * spans, 8 * half * n}
	places := []*binding{&f.tokens, &f.slots, &f.rows, &f.spans, &f.angles, &f.tiles, &f.blocks, &f.masks}
	for _, table := range tables {
		sizes = append(sizes, 4*len(table))
	}
	total := 0
	for i, size := range sizes {
		places[i].offset = total
		total += ceilDiv(size, 16) * 16
	}
	if err := f.buffer.growTo(d, total); err != nil {
		return err
	}
	for _, p := range places {
		p.b = f.buffer.Buffer
	}
	bytes := f.buffer.Bytes()
	tokens, slots := sliceAs[uint32](bytes[f.tokens.offset:]), sliceAs[uint32](bytes[f.slots.offset:])
	sees, ends := sliceAs[uint32](bytes[f.rows.offset:]), sliceAs[uint32](bytes[f.spans.offset:])
	angles := sliceAs[float32](bytes[f.angles.offset:])
	for i, table := range tables {
		copy(sliceAs[uint32](bytes[places[5+i].offset:]), table)
	}
	freq := c.Frequencies()
	f.splits, f.used, f.sees = 1, 0, 0
	at := 0
	for t, r := range rows {
		tokens[t], slots[t] = uint32(r.Token), uint32(r.Slot)
		visible, first := 0, at
		for _, s := range r.See {
			ends[2*at], ends[2*at+1] = uint32(s.From), uint32(s.To)
			visible += int(s.To - s.From)
			at++
		}
		f.sees += visible
		parts := 1
		if !isWide(n) {
			parts = splitCount(visible, c.KVHeads)
		}
		f.splits = max(f.splits, parts)
		copy(sees[4*t:], []uint32{uint32(first), uint32(at - first), uint32(visible), uint32(parts)})
		for i, w := range freq {
			sin, cos := math.Sincos(float64(r.Pos) * w)
			angles[2*(t*half+i)], angles[2*(t*half+i)+1] = float32(cos), float32(sin)
		}
		for i := len(freq); i < half; i++ {
			angles[2*(t*half+i)], angles[2*(t*half+i)+1] = 1, 0
		}
	}
	return nil
}
