// Package backend is the seam between the model and the hardware: the few fused operations that the forward pass of
// a Qwen2 model names, and the things they work on. The model (runtime/qwen2) says what happens, a backend where:
// backend/host runs the slices of kernels/cpu.
//
// A device hands out opaque [Weight], [Norm], [Tensor] and [KV] values and takes only its own back. Shapes are
// checked when the model is loaded; a wrong shape afterwards is a bug of the caller and panics.
package backend

import (
	"context"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Device holds weights, activations and KV rows, and runs passes over them. A device runs one pass at a time.
type Device interface {
	// Name says what runs, for reports: "cpu (avx2, 2 threads)".
	Name() string
	// LoadWeight takes a matrix, Shape [In, Out] in the file's order, and its bias [Out] or nil. The device may alias
	// the tensor's bytes, so the file has to stay open.
	LoadWeight(matrix gguf.Tensor, bias *gguf.Tensor) (Weight, error)
	// LoadNorm takes the gains g [n] of an RMSNorm and its epsilon.
	LoadNorm(gains gguf.Tensor, eps float32) (Norm, error)
	// NewTensor makes room for activations: rows × cols float32.
	NewTensor(rows, cols int) (Tensor, error)
	// NewKV makes an empty KV store.
	NewKV(c KVConfig) (KV, error)
	// Begin starts a pass over rows and stores their keys and values in kv. The caller must not change rows until End.
	Begin(kv KV, rows []Row) Pass
	// Close gives the memory back and stops what the device started. Nothing made by the device may be used after it.
	Close() error
}

// Weight is a matrix [Out, In] with an optional bias [Out], as a device holds it.
type Weight interface {
	Shape() (out, in int)
}

// Norm is the gain vector and epsilon of one RMSNorm, as a device holds it.
type Norm interface {
	Len() int
}

// Tensor is room for activations: one row of cols float32 per row of a pass.
type Tensor interface {
	Shape() (rows, cols int)
}

// KVConfig is the shape of attention and of its memory.
type KVConfig struct {
	Layers   int
	Slots    int       // rows of K and of V per layer
	Heads    int       // query heads; a multiple of KVHeads
	KVHeads  int       // key and value heads
	HeadSize int       // Dh, even
	RopeBase float64   // base of the rotary frequencies base^(-2i/Dh)
	Type     gguf.Type // F16 or F32
}

// Bytes is the memory of a KV store of this shape: 2 · Layers · Slots · KVHeads · HeadSize elements.
func (c KVConfig) Bytes() int64 {
	_, size := c.Type.Block()
	return 2 * int64(c.Layers) * int64(c.Slots) * int64(c.KVHeads) * int64(c.HeadSize) * int64(size)
}

// LayerBytes is the length of what [KV].Read copies of n slots.
func (c KVConfig) LayerBytes(n int) int {
	_, size := c.Type.Block()
	return 2 * n * c.KVHeads * c.HeadSize * int(size)
}

// Frequencies are the angles per position by which the pairs (i, i+Dh/2) of a head are rotated: RopeBase^(-2i/Dh),
// [Dh/2].
func (c KVConfig) Frequencies() []float64 {
	freq := make([]float64, c.HeadSize/2)
	for i := range freq {
		freq[i] = math.Pow(c.RopeBase, -2*float64(i)/float64(c.HeadSize))
	}
	return freq
}

// KVChunk is for how many slots, those from a multiple of it on, a [KV] takes memory at a time, if it grows.
const KVChunk = 256

// KV is the memory of attention: per layer one key row and one value row [KVHeads·HeadSize] in each slot. Which slot
// means what is the caller's business.
type KV interface {
	Config() KVConfig
	// Bytes is the memory that is taken. A store may begin with less than [KVConfig.Bytes], and take more as slots are
	// used, for [KVChunk] of them at a time. It may be called while a pass runs.
	Bytes() int64
	// Copy copies the keys and values of slot src over those of slot dst in every layer.
	Copy(dst, src int32)
	// Swap exchanges the keys and values of two slots in every layer.
	Swap(a, b int32)
	// Read copies the rows of the slots [0, n) of a layer to b, [n, 2, KVHeads·HeadSize]: of each slot the key, then
	// the value, elements of the store's type, little endian. Write is the way back. Neither may be called while a
	// pass runs.
	Read(layer, n int, b []byte)
	Write(layer, n int, b []byte)
}

// Span is the run of KV slots [From, To).
type Span struct{ From, To int32 }

// AppendSlot adds a slot to spans, to the last of them where it follows on, which that changes.
func AppendSlot(see []Span, slot int32) []Span {
	if n := len(see); n > 0 && see[n-1].To == slot {
		see[n-1].To++
		return see
	}
	return append(see, Span{From: slot, To: slot + 1})
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

// Pass is one forward evaluation in the words of the model. T is the number of rows given to Begin, and every tensor
// holds one line for each of them.
//
// # Order
//
// A model calls Embed; for each layer NormProject, Attend, ProjectAdd, NormGateUp, ProjectAdd; Head; End. Allowed is
//
//	pass      = { operation } [ Head ] End
//	operation = Embed | NormProject Attend | ProjectAdd | NormGateUp
//
// Attend takes the q, k and v of the NormProject right before it. Nothing else reads these, and only the next
// ProjectAdd reads what Attend wrote: a device need not have them as tensors. In place of End, a [Flight] has Commit
// and then, once, Wait or Drop; between these two, [Runner].BeginAfter may take the token that its Head finds, if that
// is for one row.
//
// A call in another order fails the pass with an error that wraps [ErrOrder] and says what was called when. The first
// error of a pass sticks: later operations do nothing, End comes all the same and reports it. After End a pass is over:
// operations do nothing, and another End gives an error. A shape that does not fit is a bug of the caller and panics.
//
// # Bits
//
// What a pass computes for a row is the same to the last bit whatever rows run beside it, and however the visible
// slots lie in memory: pipelined decoding relies on it to equal serial decoding.
type Pass interface {
	// Embed sets x[t] = table[token of row t].
	Embed(x Tensor, table Weight)
	// NormProject sets h = x/rms(x) ⊙ g, then q = wq·h + bq, k = wk·h + bk and v = wv·h + bv.
	NormProject(q, k, v, x Tensor, g Norm, wq, wk, wv Weight)
	// Attend rotates q and k by their positions, stores k and v of layer in the rows' slots, and sets
	// a = softmax(q·Kᵀ/√Dh)·V over what each row may see. It may overwrite q and k.
	Attend(a, q, k, v Tensor, layer int)
	// ProjectAdd sets x = x + w·h.
	ProjectAdd(x Tensor, w Weight, h Tensor)
	// NormGateUp sets h = x/rms(x) ⊙ g, then m = silu(wGate·h) ⊙ (wUp·h).
	NormGateUp(m, x Tensor, g Norm, wGate, wUp Weight)
	// Head sets h = x/rms(x) ⊙ g, logits = w·h, for the wanted rows only, and fills out[i] for row want.Rows[i] with
	// what is asked for. out is complete when End has returned.
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

// Flight is a pass that runs while its caller goes on. Flights run in the order of their Commit; hidden states that one
// stores last until the next is begun. In place of End stand Commit and then, once, Wait or Drop.
type Flight interface {
	Pass
	// Commit hands the pass to the device and does not wait.
	Commit()
	// Wait does what is left of End.
	Wait(ctx context.Context) error
	// Drop discards the results of the pass. The pass runs nevertheless.
	Drop()
}

// Want says what the head is to return, and for which rows.
type Want struct {
	Rows   []int  // rows of the pass, rising
	K      int    // how many best tokens, at least 1
	Logits bool   // also all logits
	Hidden bool   // also the hidden state after the final norm
	Router Router // also its confidence; only a router of this device. Who cannot load one asks for Hidden instead
	// Draw, if its sampling is not greedy, says how the token after the only wanted row of a [Flight] will be drawn.
	// The flight hands on its guess at that token. The results do not change. Other passes may ignore it.
	Draw Draw
	// Each, if not empty, says of each of Rows what is to be returned for it, in place of K, Logits and Hidden; only
	// for a [Mixer].
	Each []WantRow
}

// Draw is how package sample draws a token, as far as a device that guesses at it has to know. The zero value is the
// best token.
type Draw struct {
	terms.Sampling
	MinP float64 // least share of the probability of the best token; 0: any
}

// WantRow is what [Want] says, for one row.
type WantRow struct {
	K              int
	Logits, Hidden bool
}

// Of is what is wanted for row Rows[i].
func (w Want) Of(i int) WantRow {
	if len(w.Each) > 0 {
		return w.Each[i]
	}
	return WantRow{K: w.K, Logits: w.Logits, Hidden: w.Hidden}
}

// Router is a small network over the hidden state after the final norm, as a [RouterDevice] holds it.
type Router interface {
	// Dim is the width of the hidden state that it takes.
	Dim() int
}

// RouterDevice is a [Device] that evaluates a router on the way, in the head of a pass: without another pass, and
// without handing out hidden states.
type RouterDevice interface {
	// LoadRouter takes linear layers with ReLU between them and a sigmoid at the end, which gives one number. With
	// headFeatures, the first layer takes the margin p₁ - p₂ and the certainty exp(-H) of the head after the hidden
	// state.
	LoadRouter(layers []RouterLayer, headFeatures bool) (Router, error)
}

// RouterLayer is a linear map: y[o] = Bias[o] + Σᵢ Weight[o·In + i]·x[i].
type RouterLayer struct {
	In, Out int
	Weight  []float32 // [Out, In]
	Bias    []float32 // [Out]
}
