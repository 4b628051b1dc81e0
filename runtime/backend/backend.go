// Package backend is the interface between the model and the hardware: the few fused operations that the forward pass
// of a Qwen2, Qwen3 or Qwen3.5 model consists of, and their operands. The model (runtime/transformer) says what is
// computed, a backend how: backend/host runs the slices of kernels/cpu.
//
// A device hands out opaque [Weight], [Norm], [Tensor] and [KV] values and accepts only its own. Shapes are checked
// when the model is loaded; a wrong shape afterwards is a bug of the caller and panics.
package backend

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Device holds weights, activations and KV rows, and runs passes over them. A device runs one pass at a time.
type Device interface {
	// Name describes the device, for reports: "cpu (avx2, 2 threads)".
	Name() string
	// LoadWeight loads a matrix, Shape [In, Out] in the file's order, and its bias [Out] or nil. The device may alias
	// the tensor's bytes, so the file has to stay open.
	LoadWeight(matrix gguf.Tensor, bias *gguf.Tensor) (Weight, error)
	// LoadNorm loads the gains g [n] of an RMSNorm and its epsilon.
	LoadNorm(gains gguf.Tensor, eps float32) (Norm, error)
	// LoadDelta loads a layer with a recurrent state.
	LoadDelta(c DeltaConfig, w DeltaWeights) (Delta, error)
	// NewTensor allocates activations: rows × cols float32.
	NewTensor(rows, cols int) (Tensor, error)
	// NewKV makes an empty KV store, a [DeltaKV] if c has layers with a recurrent state.
	NewKV(c KVConfig) (KV, error)
	// Begin starts a pass over rows and stores their keys and values in kv. The caller must not change rows until End.
	Begin(kv KV, rows []Row) Pass
	// Close frees the memory and stops what the device has started. Objects of the device must not be used after Close.
	Close() error
}

// ErrFault is the error of a pass that failed on its device, and not because of what it was to compute. It may be
// repeated: the slots of its rows are undefined until then.
var ErrFault = errors.New("the device failed")

// Weight is a matrix [Out, In] with an optional bias [Out], as a device holds it.
type Weight interface {
	Shape() (out, in int)
}

// Norm is the gain vector and epsilon of one RMSNorm, as a device holds it.
type Norm interface {
	Len() int
}

// Tensor holds activations: one row of cols float32 per row of a pass.
type Tensor interface {
	Shape() (rows, cols int)
}

// KVConfig is the shape of attention and of its KV store.
type KVConfig struct {
	Layers   int         // with attention
	Slots    int         // rows of K and of V per layer
	Heads    int         // query heads; a multiple of KVHeads
	KVHeads  int         // key and value heads
	HeadSize int         // Dh, even
	Rotated  int         // R, even: the first elements of a head, which are rotated; 0 means all
	Gated    bool        // q has, after each query, a gate of as many elements
	RopeBase float64     // base of the rotary frequencies base^(-2i/R)
	Type     gguf.Type   // F16 or F32
	Delta    DeltaConfig // the layers with a recurrent state
}

// Bytes returns the memory of a KV store of this shape: 2 · Layers · Slots · KVHeads · HeadSize elements, and the
// states that are kept for that many slots.
func (c KVConfig) Bytes() int64 { return c.FixedBytes() + int64(c.Slots)*c.SlotBytes() }

// SlotBytes returns the memory for each slot.
func (c KVConfig) SlotBytes() int64 {
	return int64(c.LayerBytes(1))*int64(c.Layers) +
		(c.Delta.CheckpointBytes(c.Type)+checkpointSlots-1)/checkpointSlots +
		(c.Delta.UpdateBytes(c.Type)+updateSlots-1)/updateSlots
}

// FixedBytes returns the memory of any number of slots: of states, which a single text needs.
func (c KVConfig) FixedBytes() int64 {
	return fixedCheckpoints*c.Delta.CheckpointBytes(c.Type) + fixedUpdates*c.Delta.UpdateBytes(c.Type)
}

// ReadBytes returns the memory of keys, values and states that a token reads after n others.
func (c KVConfig) ReadBytes(n int) int64 {
	return int64(c.LayerBytes(n))*int64(c.Layers) + c.Delta.readBytes(c.Type)
}

// LayerBytes returns the number of bytes that [KV].Read copies for n slots.
func (c KVConfig) LayerBytes(n int) int {
	_, size := c.Type.Block()
	return 2 * n * c.KVHeads * c.HeadSize * int(size)
}

// RotatedSize returns the number of elements of a head that are rotated.
func (c KVConfig) RotatedSize() int { return cmp.Or(c.Rotated, c.HeadSize) }

// Frequencies returns the angles per position by which the pairs (i, i+R/2) of a head are rotated: RopeBase^(-2i/R),
// [R/2].
func (c KVConfig) Frequencies() []float64 {
	size := c.RotatedSize()
	freq := make([]float64, size/2)
	for i := range freq {
		freq[i] = math.Pow(c.RopeBase, -2*float64(i)/float64(size))
	}
	return freq
}

// KVChunk is the number of slots, beginning at a multiple of it, for which a growing [KV] allocates memory at a time.
const KVChunk = 256

// KV is a KV store: per layer one key row and one value row [KVHeads·HeadSize] in each slot. The caller decides what a
// slot is used for.
type KV interface {
	Config() KVConfig
	// Bytes returns the memory that is allocated. A store may begin with less than [KVConfig.Bytes], and allocate more
	// as slots are used, for [KVChunk] of them at a time. It may be called while a pass runs.
	Bytes() int64
	// Copy copies the keys and values of slot src over those of slot dst in every layer.
	Copy(dst, src int32)
	// Swap exchanges the keys and values of two slots in every layer.
	Swap(a, b int32)
	// Read copies the rows of the slots [0, n) of a layer to b, [n, 2, KVHeads·HeadSize]: of each slot the key, then
	// the value, elements of the store's type, little endian. Write copies them from b to the store. Neither may be
	// called while a pass runs.
	Read(layer, n int, b []byte)
	Write(layer, n int, b []byte)
}

// KVOf returns the store of a row of a pass over kv.
func (r Row) KVOf(kv KV) KV {
	if r.KV != nil {
		return r.KV
	}
	return kv
}

// Span is the run of KV slots [From, To).
type Span struct{ From, To int32 }

// CountVisible returns the number of slots in spans.
func CountVisible(spans []Span) int {
	n := 0
	for _, s := range spans {
		n += int(s.To - s.From)
	}
	return n
}

// AppendSlot adds a slot to spans. It extends the last span in place if the slot follows it.
func AppendSlot(see []Span, slot int32) []Span {
	if n := len(see); n > 0 && see[n-1].To == slot {
		see[n-1].To++
		return see
	}
	return append(see, Span{From: slot, To: slot + 1})
}

// AppendVisible appends to part the spans of n visible slots, from number first on; fewer if there are fewer.
func AppendVisible(part, see []Span, first, n int) []Span {
	for _, s := range see {
		size := int(s.To - s.From)
		if first >= size {
			first -= size
			continue
		}
		from := s.From + int32(first)
		to := min(s.To, from+int32(n))
		part = append(part, Span{From: from, To: to})
		first, n = 0, n-int(to-from)
		if n == 0 {
			break
		}
	}
	return part
}

// Row is one token to evaluate. Its key and value are stored in Slot before any row of the pass attends, so rows of
// one pass can see each other.
type Row struct {
	Token int32
	Pos   int32  // position in its text, from 0: the angle of the rotation
	Slot  int32  // where its key and value go; no two rows of a pass share one
	See   []Span // the slots it attends to, each once, by rising position, its own last: settled prefix, then ancestors
	KV    KV     // the store of these slots, only for a [Mixer]; nil: that of the pass
}

// Mixer is a device that takes rows of several KV stores in one pass: [Row.KV]. The stores have the same shape.
type Mixer interface {
	Device
	Mixes()
}

// Pass is one forward evaluation, as the operations of the model. T is the number of rows given to Begin, and every
// tensor holds one line for each of them. Operations may run at End.
//
// # Order
//
// A model calls Embed; for each layer NormProject, Attend, ProjectAdd, NormGateUp, ProjectAdd; Head; End. The allowed
// orders are
//
//	pass      = { operation } [ Head ] End
//	operation = Embed | NormProject Attend | Delta | ProjectAdd | NormGateUp
//
// Delta is in the place of NormProject and Attend in layers with a recurrent state. Attend takes the q, k and v of the
// NormProject right before it. No other operation reads these, and only the next ProjectAdd reads the result of Attend
// or Delta: a device need not store them as tensors. A [Flight] has, in place of End, Commit and then, once, Wait or
// Drop; between these two, [Runner].BeginAfter may take the token that its Head finds, if Head is for one row.
//
// The first error of a pass sticks: later operations do nothing, and End must still be called and returns it. After End
// a pass is over. Another order is a bug of the caller, and so is a wrong shape, which panics.
//
// # Bits
//
// The results of a row are the same to the last bit whatever other rows are in the pass, and however the visible slots
// lie in memory: pipelined decoding relies on it to equal serial decoding.
type Pass interface {
	// Embed sets x[t] = table[token of row t].
	Embed(x Tensor, table Weight)
	// NormProject sets h = x/rms(x) ⊙ g, then q = wq·h + bq, k = wk·h + bk and v = wv·h + bv.
	NormProject(q, k, v, x Tensor, g Norm, wq, wk, wv Weight)
	// Attend sets each head h of q to h/rms(h) ⊙ gq and of k to h/rms(h) ⊙ gk, where these norms [Dh] are not nil. It
	// then rotates q and k by their positions, stores k and v of layer in the rows' slots, and sets a =
	// softmax(q·Kᵀ/√Dh)·V over the slots that each row sees, times sigmoid(gate) with [KVConfig].Gated. Then q is
	// [T, H, 2, Dh], of each head the query and its gate. It may overwrite q and k.
	Attend(a, q, k, v Tensor, gq, gk Norm, layer int)
	// Delta sets h = x/rms(x) ⊙ g, then for each row and head, with layer counting those with a recurrent state,
	//
	//	q, k, v = silu(conv(Mixed·h)), q = q/‖q‖/√KeySize, k = k/‖k‖
	//	β = sigmoid(Beta·h), α = exp(A·softplus(Alpha·h + Step))
	//	a = o/rms(o) ⊙ Norm ⊙ silu(Gate·h), with o of the rule of delta.go
	Delta(a, x Tensor, g Norm, d Delta, layer int)
	// ProjectAdd sets x = x + w·h.
	ProjectAdd(x Tensor, w Weight, h Tensor)
	// NormGateUp sets h = x/rms(x) ⊙ g, then m = silu(wGate·h) ⊙ (wUp·h).
	NormGateUp(m, x Tensor, g Norm, wGate, wUp Weight)
	// Head sets h = x/rms(x) ⊙ g, logits = w·h, for the wanted rows only, and sets out[i] to the wanted output of row
	// want.Rows[i]. out is complete when End has returned.
	Head(out []Output, x Tensor, g Norm, w Weight, want Want)
	// End waits for the pass and returns its first error.
	End(ctx context.Context) error
}

// Runner is a device with flights: it can begin a pass before the pass that finds its token has ended. The device hands
// the token on itself, without a round trip to the caller between two tokens.
type Runner interface {
	Device
	// BeginAlone is Begin for one row, as a flight.
	BeginAlone(kv KV, row Row) Flight
	// BeginAfter is BeginAlone for a row with the token that before finds for its only wanted row. row.Token is
	// ignored. The token is [Output].Next: the best one or, with [Want].Draw, a guess at the one that will be drawn.
	// before is a flight of the same device that is committed and neither waited for nor dropped.
	BeginAfter(before Flight, kv KV, row Row) Flight
}

// Flight is a pass that runs while its caller continues. Flights run in the order of their Commit; the hidden states
// that a flight stores are valid until the next one begins. In place of End, call Commit and then, once, Wait or Drop.
type Flight interface {
	Pass
	// Commit hands the pass to the device and does not wait.
	Commit()
	// Wait does the rest of End.
	Wait(ctx context.Context) error
	// Drop discards the results of the pass. The pass runs nevertheless.
	Drop()
}

// Want says which output of the head is wanted, and for which rows.
type Want struct {
	Rows   []int  // rows of the pass, rising
	K      int    // number of best tokens, at least 1
	Logits bool   // also all logits
	Hidden bool   // also the hidden state after the final norm
	Router Router // also its confidence; only a router of this device. A caller that cannot load one asks for Hidden
	// Draw, if its sampling is not greedy, says how the token after the only wanted row of a [Flight] will be drawn.
	// The flight hands on its guess at that token. The results do not change. Other passes may ignore it.
	Draw Draw
	// Each, if not empty, says what is wanted for each of Rows, in place of K, Logits and Hidden; only for a [Mixer].
	Each []WantRow
}

// Draw describes how package sample draws a token, as far as a device needs it to guess the token. The zero value is
// the best token.
type Draw struct {
	terms.Sampling
	MinP float64 // least share of the probability of the best token; 0: any
}

// WantRow is the part of [Want] for one row.
type WantRow struct {
	K              int
	Logits, Hidden bool
}

// Of returns what is wanted for row Rows[i].
func (w Want) Of(i int) WantRow {
	if len(w.Each) > 0 {
		return w.Each[i]
	}
	return WantRow{K: w.K, Logits: w.Logits, Hidden: w.Hidden}
}

// Router is a small network over the hidden state after the final norm, as a [RouterDevice] holds it.
type Router interface {
	// Dim is the width of the router's input, the hidden state.
	Dim() int
}

// RouterDevice is a [Device] that evaluates a router in the head of a pass: without another pass, and without returning
// hidden states.
type RouterDevice interface {
	// LoadRouter loads linear layers with ReLU between them and a sigmoid at the end, which gives one number. With
	// headFeatures, the input of the first layer is the hidden state followed by the margin p₁ - p₂ and the certainty
	// exp(-H) of the head.
	LoadRouter(layers []RouterLayer, headFeatures bool) (Router, error)
}

// RouterLayer is a linear map: y[o] = Bias[o] + Σᵢ Weight[o·In + i]·x[i].
type RouterLayer struct {
	In, Out int
	Weight  []float32 // [Out, In]
	Bias    []float32 // [Out]
}
