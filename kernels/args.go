package kernels

// Constants that the kernels and their callers share, as in common.metal and with each kernel.
const (
	StepColumns   = 512 // columns that a simdgroup takes at a time
	TailColumns   = 128 // columns that 8 of its lanes take: parts of the columns are multiples of it
	TileRows      = 4   // weight rows that a simdgroup takes together
	MaxSplits     = 32  // maximum splits of the visible keys of a row
	WideRows      = 64  // activation rows of a threadgroup of a _wide kernel
	WideOuts      = 64  // its weight rows
	WideStep      = 32  // columns in threadgroup memory at a time
	WideThreads   = 128
	AttendThreads = 128
	AttendSimds   = AttendThreads / 32
	BlockSlots    = 32  // slots of a block of attend_wide
	BandRows      = 8   // rows of the pass in a band of it
	BandFloats    = 320 // floats of threadgroup memory for each band
	MergeThreads  = 256
	MergeWidth    = 1024 // maximum outputs of a layer of a router
	MergeLayers   = 16   // maximum layers of a router
	MergeLists    = 4096 // maximum threadgroups of a head
	MergeBest     = 64   // maximum best tokens
)

// EmbedArgs are the arguments of embed.metal.
type EmbedArgs struct {
	Cols     uint32
	RowBytes uint32
	Vocab    uint32
	HasGain  uint32
}

// NormArgs are the arguments of norm.metal.
type NormArgs struct {
	Cols uint32
}

// QKVArgs are the arguments of qkv.metal.
type QKVArgs struct {
	Rows        uint32 // of activations
	Cols        uint32
	RowBytes    [3]uint32 // of a row of Wq, Wk and Wv
	Pairs       [3]uint32
	Groups      [3]uint32  // threadgroups for each
	Bias        uint32     // bit i: matrix i has one
	Norms       uint32     // bit i: its heads have one
	HeadEps     [2]float32 // of the norms of q and k
	GroupPairs  uint32     // pairs that a threadgroup has room for, a multiple of TileRows
	Step        uint32     // pairs that it takes: at most that many, with norms of heads those of a head
	Parts       uint32     // of the columns: these four are those of Cut in dot.metal
	Share       uint32
	Abreast     uint32
	Chunk       uint32
	SquareParts uint32 // of Σ x²
	Eps         float32
	Head        uint32 // Dh
	Rotated     uint32 // R
	HeadRoom    uint32
	Heads       uint32 // of q, with gates
	Gated       uint32 // q has gates
	Slots       uint32
}

// AttendArgs are the arguments of attend.metal.
type AttendArgs struct {
	Heads     uint32
	Group     uint32 // query heads to a key/value head
	Parts     uint32 // threadgroups that share these
	Head      uint32 // Dh
	HeadRoom  uint32
	Slots     uint32
	MaxSplits uint32 // room for splits in the results
	Gated     uint32 // a gate follows each query
	Scale     float32
}

// AttendWideArgs are the arguments of attendwide.metal.
type AttendWideArgs struct {
	Rows      uint32 // of the pass
	Heads     uint32
	Group     uint32 // query heads to a key/value head
	PartHeads uint32 // of these, for each threadgroup
	Parts     uint32 // threadgroups that share a group
	Bands     uint32 // of BandRows rows in a tile: a power of two
	Head      uint32 // Dh
	HeadRoom  uint32
	Slots     uint32
	Gated     uint32 // a gate follows each query
	Scale     float32
}

// AttendBlock is the BlockSlots slots from Slot on, if a tile of rows sees any of them. If Mask is 0 all rows see all
// slots; otherwise masks[Mask-1] has a bit for each slot that any row sees, and the masks after it have the slots that
// each row sees.
type AttendBlock struct {
	Slot, Mask uint32
}

// AttendRow says what a row attends to: spans [FirstSpan, FirstSpan + Spans) of all spans, which hold Visible slots
// together. They are computed in Splits parts.
type AttendRow struct {
	FirstSpan, Spans, Visible, Splits uint32
}

// AddArgs are the arguments of add.metal.
type AddArgs struct {
	Rows      uint32 // of activations
	Outs      uint32 // weight rows
	Cols      uint32
	RowBytes  uint32
	Bias      uint32 // W has one
	Gain      uint32 // a norm follows
	GroupRows uint32 // weight rows that a threadgroup takes
	Parts     uint32 // of the columns: these four are those of Cut in dot.metal
	Share     uint32
	Abreast   uint32
	Chunk     uint32
	Splits    uint32 // room for splits in h; 1 means one plain row for each row of x
	Heads     uint32 // with splits
	Head      uint32 // Dh, with splits
}

// GateUpArgs are the arguments of gateup.metal.
type GateUpArgs struct {
	Rows        uint32 // of activations
	Outs        uint32 // F: rows of each weight
	Cols        uint32
	GateBytes   uint32 // of a row
	UpBytes     uint32
	Bias        uint32 // bit 0: Wg has one; bit 1: Wu
	GroupPairs  uint32 // pairs of a gate and an up row that a threadgroup takes, a multiple of TileRows
	Parts       uint32 // of the columns: these four are those of Cut in dot.metal
	Share       uint32
	Abreast     uint32
	Chunk       uint32
	SquareParts uint32 // of Σ x²
	Eps         float32
	Mode        uint32 // 1 stores Wu h + bu in m, 2 reads it there; otherwise 0
}

// HeadArgs are the arguments of head.metal.
type HeadArgs struct {
	Rows         uint32 // wanted
	Outs         uint32 // vocabulary
	Cols         uint32
	RowBytes     uint32
	Bias         uint32 // W has one
	GroupRows    uint32 // weight rows that a threadgroup takes, at most 1024
	Parts        uint32 // of the columns: these four are those of Cut in dot.metal
	Share        uint32
	Abreast      uint32
	Chunk        uint32
	SquareParts  uint32 // of Σ x²
	Eps          float32
	K            uint32
	Logits       uint32  // 1 if logits are wanted
	Groups       uint32  // threadgroups of the vocabulary
	Router       uint32  // rows of a router's first layer; 0: no router
	RouterBytes  uint32  // of a row of it
	RouterRows   uint32  // rows that a threadgroup takes, a multiple of TileRows
	RouterGroups uint32  // threadgroups for them, before those of the vocabulary
	Draw         uint32  // a token is drawn too, for the only wanted row: HeadDraw
	Sharpness    float32 // 1/temperature
	Pos          uint32  // of that token
	SeedLow      uint32
	SeedHigh     uint32
	Row          [8]uint32 // of x, for each wanted row
}

// HeadSums is the result of a threadgroup of the head for a row: the largest logit M, Sum e and Moment Σ e·(l - M) for
// e = exp(l - M).
type HeadSums struct {
	M, Sum, Moment float32
}

// HeadDraw is the result of a threadgroup of the head if a token is drawn: Mass Σ exp((l - M)/temperature), and the
// Token with the largest Score l/temperature + noise.
type HeadDraw struct {
	Mass, Score float32
	Token       uint32
}

// MergeArgs are the arguments of merge.metal.
type MergeArgs struct {
	Groups    uint32 // of the head, at most MergeLists
	K         uint32
	Stride    uint32  // words of a result
	Layers    uint32  // of the router; 0: none
	Features  uint32  // the inputs of the first layer include margin and certainty; K is at least 2
	Draw      uint32  // a token is drawn, for the only wanted row
	Best      uint32  // maximum number of the K best that can be drawn; at least 1
	Rest      uint32  // others can be drawn too: the head has drawn one, and has computed masses
	Sharpness float32 // 1/temperature
	TopP      float32 // over 1: all can be drawn
	MinLogit  float32 // below the best one, of what can be drawn: temperature · ln min-p
	Pos       uint32  // of that token
	SeedLow   uint32
	SeedHigh  uint32
	Widths    [MergeLayers + 1]uint32 // Widths[i] is the number of outputs of layer i, at most MergeWidth
}

// ProjectArgs are the arguments of project.metal.
type ProjectArgs struct {
	Rows        uint32 // of activations
	Cols        uint32
	RowBytes    [4]uint32
	Outs        [4]uint32
	Groups      [4]uint32 // threadgroups for each
	Column      [4]uint32 // of the results, where those of each begin
	Stride      uint32    // columns of the results
	GroupRows   uint32    // weight rows that a threadgroup takes
	Parts       uint32    // of the columns: these four are those of Cut in dot.metal
	Share       uint32
	Abreast     uint32
	Chunk       uint32
	SquareParts uint32 // of Σ x²
	Eps         float32
}

// ConvArgs are the arguments of conv.metal.
type ConvArgs struct {
	Rows       uint32 // of the pass
	Taps       uint32 // of the convolution
	KeyHeads   uint32
	ValueHeads uint32
	KeySize    uint32
	ValueSize  uint32
	Stride     uint32 // columns of a row of projections: those of the convolution, gates, β, α
	UpdateSize uint32 // elements of an update
	Eps        float32
}

// ConvRow is a row of the pass, or the end of a chunk: the update or checkpoint that is written, and the first of its
// Taps-1 sources. Its decay is that of the token of update Before, if any, and of Decays rows of the pass after that.
type ConvRow struct {
	Into, Source, Before, Decay, Decays uint32
}

// ConvSource is where the input of a token is: Kind is 0 (nowhere) or one of the following.
type ConvSource struct {
	Kind, At uint32
}

// Kinds of [ConvSource]; At is the number of an update, a checkpoint's number times Taps-1 and the number of its input,
// or a row of the pass.
const (
	FromUpdate     = 1
	FromCheckpoint = 2
	FromRow        = 3
)

// DeltaArgs are the arguments of delta.metal.
type DeltaArgs struct {
	Steps      uint32
	KeyHeads   uint32
	ValueHeads uint32
	KeySize    uint32
	ValueSize  uint32
	Stride     uint32 // columns of a row of projections
	UpdateSize uint32 // elements of an update
	Eps        float32
}

// DeltaStep is a row, or the end of a chunk if Into is not NoState. The chunk has Tokens tokens before the row, with
// updates from First on. Base is the checkpoint before the chunk.
type DeltaStep struct {
	Base, First, Tokens, Row, Update, Into uint32
}

// Constants of conv.metal and delta.metal.
const (
	DeltaSize    = 256 // maximum elements of a key or value head
	DeltaThreads = 256
	DeltaSimds   = DeltaThreads / 32
	ChunkTokens  = 16
	NoState      = 0xffffffff
)
