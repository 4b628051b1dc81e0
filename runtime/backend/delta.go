package backend

import "github.com/pilotfish-ai/pilotfish/gguf"

// Layers with a recurrent state in place of attention: a gated delta rule behind a short convolution, as in Qwen3.5
// ("Gated Delta Networks: Improving Mamba2 with Delta Rule", arXiv 2412.06464). Each value head has a state
// S [KeySize, ValueSize], which a token decays by α and corrects by the outer product of its key k and an error u:
//
//	u = β·(v - α·Sᵀk), S = α·S + k·uᵀ, o = Sᵀq
//
// # States that can be taken back
//
// A recurrent state cannot be cut like keys and values. So it is not updated with each token: texts are divided into
// chunks of [DeltaChunk] positions, and a store has checkpoints, the states between two chunks, and the updates
// (α, k, u) of single tokens. A token computes its output from the checkpoint before its chunk and from the updates of
// its ancestors in the chunk; when a text passes the end of a chunk, these are added to the checkpoint:
//
//	S' = a(32)·S + Σⱼ a(32)/a(j)·kⱼ·uⱼᵀ, with a(j) = α₁·…·αⱼ since the beginning of the chunk
//
// As the chunks depend only on positions, a token has the same bits whatever is evaluated with it, and whatever has
// been drafted and dropped. To take a token back is to ignore its slot, as it is with keys and values. This is also the
// chunkwise form of the rule for many tokens ("Parallelizing Linear Transformers with the Delta Rule over Sequence
// Length", arXiv 2406.06484), without the inverse: the errors of a chunk are computed one after the other.
//
// Memory is bounded: a store drops checkpoints and updates that were not used for long. A row that needs one evaluates
// the tokens after the last checkpoint before it again: [Replay].

// DeltaChunk is the number of positions of a chunk, which begins at a multiple of it.
const DeltaChunk = 16

// DeltaConfig is the shape of the layers with a recurrent state. The zero value means that a model has none.
type DeltaConfig struct {
	Layers     int
	KeyHeads   int
	ValueHeads int // a multiple of KeyHeads; value head h has the keys of key head h mod KeyHeads
	KeySize    int // of a query or key head
	ValueSize  int
	Kernel     int     // taps of the convolution
	Epsilon    float32 // of the norms
}

// Channels returns the width of the convolution: queries, keys and values.
func (c DeltaConfig) Channels() int { return 2*c.KeyHeads*c.KeySize + c.ValueWidth() }

// ValueWidth returns the width of values, gates and results.
func (c DeltaConfig) ValueWidth() int { return c.ValueHeads * c.ValueSize }

// StateSize returns the number of elements of the states of a layer.
func (c DeltaConfig) StateSize() int { return c.ValueHeads * c.KeySize * c.ValueSize }

// UpdateSize returns the number of elements that an update has in a layer: inputs of the convolution, keys, and errors.
func (c DeltaConfig) UpdateSize() int { return c.Channels() + c.KeyHeads*c.KeySize + c.ValueWidth() }

// CheckpointBytes returns the memory of a checkpoint in all layers: states in float32, and the last inputs of the
// convolution.
func (c DeltaConfig) CheckpointBytes(t gguf.Type) int64 {
	_, size := t.Block()
	return int64(c.Layers) * (4*int64(c.StateSize()) + int64(size)*int64(c.Kernel-1)*int64(c.Channels()))
}

// UpdateBytes returns the memory of the update of one token in all layers.
func (c DeltaConfig) UpdateBytes(t gguf.Type) int64 {
	_, size := t.Block()
	return int64(c.Layers) * (4*int64(c.ValueHeads) + int64(size)*int64(c.UpdateSize()))
}

// A store keeps some checkpoints and updates besides those that its last pass has used: for a text with its branches,
// and more for each so many slots, for more texts.
const (
	fixedCheckpoints, checkpointSlots = 8, 1024
	fixedUpdates, updateSlots         = 8 * DeltaChunk, 16
)

// Checkpoints returns how many checkpoints a store of that many slots keeps.
func (c DeltaConfig) Checkpoints(slots int) int { return fixedCheckpoints + slots/checkpointSlots }

// Updates returns how many updates a store of that many slots keeps.
func (c DeltaConfig) Updates(slots int) int { return fixedUpdates + slots/updateSlots }

// readBytes returns the memory that a token reads and writes in the mean: a state, the updates of its chunk, which on
// average is half full, and the token's share of the states between chunks.
func (c DeltaConfig) readBytes(t gguf.Type) int64 {
	_, size := t.Block()
	update := int64(size) * int64(c.KeyHeads*c.KeySize+c.ValueWidth())
	state := 4 * int64(c.StateSize())
	return int64(c.Layers) * (state + DeltaChunk/2*update + 2*state/DeltaChunk)
}

// SavedBytes returns the size of the states after n tokens: a checkpoint, and the updates after it.
func (c DeltaConfig) SavedBytes(n int, t gguf.Type) int {
	size := n % DeltaChunk * int(c.UpdateBytes(t))
	if n >= DeltaChunk {
		size += int(c.CheckpointBytes(t))
	}
	return size
}

// DeltaWeights are the weights of a layer with a recurrent state.
type DeltaWeights struct {
	Mixed       Weight      // [Channels, D]: queries, keys, values
	Gate        Weight      // [ValueWidth, D]
	Beta, Alpha Weight      // [ValueHeads, D]: of the strength of the correction, and of the decay
	Conv        gguf.Tensor // [Kernel, Channels]: of each channel its taps, that of the current token last
	A           gguf.Tensor // [ValueHeads]: below 0, the decay is exp(A·softplus(alpha + Step))
	Step        gguf.Tensor // [ValueHeads]
	Norm        gguf.Tensor // [ValueSize]: gains of the norm of each value head
}

// Delta is a layer with a recurrent state, as a device holds it.
type Delta interface {
	Config() DeltaConfig
	// MaxRows is the number of rows that a pass may have, whose states are all in memory at the same time.
	MaxRows() int
}

// DeltaKV is a store with recurrent states.
type DeltaKV interface {
	KV
	// Replay returns rows that are to be evaluated before rows can be: those whose states were dropped. It returns nil
	// if there are none. They may be many more than a pass takes.
	Replay(rows []Row) []Row
	// Trim drops states that were not used for long, if there are more than so many checkpoints or updates.
	Trim(checkpoints, updates int)
	// Resume returns the largest number of slots, of those that see has first, after which a row needs no replay. Rows
	// of the same pass will have written some slots; written may be nil.
	Resume(see []Span, written func(slot int32) bool) int
	// ReadState copies the states after the first n slots, from which a row can resume, and WriteState copies them to a
	// store, with the tokens of these slots: [DeltaConfig.SavedBytes], numbers in little endian. Neither may be called
	// while a pass runs. Their errors are those of passes and of allocations.
	ReadState(n int, b []byte) error
	WriteState(tokens []int32, b []byte) error
}
