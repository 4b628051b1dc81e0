package transformer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// paper is a device that computes nothing: it records loads and operations. Its passes are flights.
type paper struct {
	log     []string     // of passes
	want    backend.Want // of the last head
	tensors [][2]int
	norms   map[string]float32 // epsilon by name

	refuse  string                     // the tensor that cannot be loaded, or "activations" or "kv"
	result  func(out []backend.Output) // writes the results of a head
	err     error                      // returned by End and Wait
	waiting func()                     // called by End and Wait
}

// paperWeight is a matrix, with the names of its tensors.
type paperWeight struct{ name, bias string }

type paperNorm struct{ name string }

type paperTensor struct{ rows, cols int }

type paperKV struct{ c backend.KVConfig }

func (paperWeight) Shape() (out, in int)       { return 0, 0 }
func (paperNorm) Len() int                     { return 0 }
func (t *paperTensor) Shape() (rows, cols int) { return t.rows, t.cols }
func (k *paperKV) Config() backend.KVConfig    { return k.c }
func (*paperKV) Bytes() int64                  { return 0 }
func (*paperKV) Copy(dst, src int32)           {}
func (*paperKV) Swap(a, b int32)               {}
func (*paperKV) Read(int, int, []byte)         {}
func (*paperKV) Write(int, int, []byte)        {}

func (*paperKV) Replay([]backend.Row) []backend.Row { return nil }
func (*paperKV) Trim(int, int)                      {}
func (*paperKV) Resume(see []backend.Span, written func(int32) bool) int {
	return backend.CountVisible(see)
}
func (*paperKV) ReadState(int, []byte) error      { return nil }
func (*paperKV) WriteState([]int32, []byte) error { return nil }

func (*paper) Name() string { return "paper" }
func (*paper) Close() error { return nil }
func (p *paper) note(format string, values ...any) {
	p.log = append(p.log, fmt.Sprintf(format, values...))
}

var errPaper = errors.New("no room")

func (p *paper) LoadWeight(m gguf.Tensor, bias *gguf.Tensor) (backend.Weight, error) {
	w := paperWeight{name: m.Name}
	if bias != nil {
		w.bias = bias.Name
	}
	if m.Name == p.refuse || len(m.Shape) != 2 || bias != nil && len(bias.Shape) != 1 {
		return nil, errPaper
	}
	return w, nil
}

func (p *paper) LoadNorm(g gguf.Tensor, eps float32) (backend.Norm, error) {
	if p.norms == nil {
		p.norms = map[string]float32{}
	}
	p.norms[g.Name] = eps
	if g.Name == p.refuse || len(g.Shape) != 1 {
		return nil, errPaper
	}
	return paperNorm{g.Name}, nil
}

// paperDelta is a layer with a recurrent state, with the names of its weights.
type paperDelta struct {
	c     backend.DeltaConfig
	names string
}

func (d paperDelta) Config() backend.DeltaConfig { return d.c }
func (paperDelta) MaxRows() int                  { return 128 }

func (p *paper) LoadDelta(c backend.DeltaConfig, w backend.DeltaWeights) (backend.Delta, error) {
	for _, v := range []gguf.Tensor{w.Conv, w.A, w.Step, w.Norm} {
		if v.Name == p.refuse {
			return nil, errPaper
		}
	}
	return paperDelta{c, fmt.Sprintln(name(w.Mixed), name(w.Gate), name(w.Beta), name(w.Alpha), w.Conv.Name, w.A.Name,
		w.Step.Name, w.Norm.Name)}, nil
}

func (p *paper) NewTensor(rows, cols int) (backend.Tensor, error) {
	if p.refuse == "activations" {
		return nil, errPaper
	}
	p.tensors = append(p.tensors, [2]int{rows, cols})
	return &paperTensor{rows, cols}, nil
}

func (p *paper) NewKV(c backend.KVConfig) (backend.KV, error) {
	if p.refuse == "kv" {
		return nil, errPaper
	}
	return &paperKV{c}, nil
}

func (p *paper) Begin(kv backend.KV, rows []backend.Row) backend.Pass {
	p.note("begin %d rows from %d, token %d", len(rows), rows[0].Pos, rows[0].Token)
	return &paperPass{d: p, rows: len(rows)}
}

func (p *paper) BeginAlone(kv backend.KV, row backend.Row) backend.Flight {
	return p.Begin(kv, []backend.Row{row}).(*paperPass)
}

func (p *paper) BeginAfter(before backend.Flight, kv backend.KV, row backend.Row) backend.Flight {
	p.note("begin at %d after %d, token %d", row.Pos, before.(*paperPass).number, row.Token)
	return &paperPass{d: p, rows: 1}
}

// paperPass records operations with the names of their weights.
type paperPass struct {
	d      *paper
	rows   int
	number int // number of Commit
	out    []backend.Output
}

func name(v any) string {
	switch v := v.(type) {
	case paperWeight: // with a + if it has the bias of its name
		short := strings.TrimSuffix(v.name, ".weight")
		return short + strings.Replace(v.bias, short+".bias", "+", 1)
	case paperNorm:
		return strings.TrimSuffix(v.name, ".weight")
	}
	return fmt.Sprint(v)
}

func (p *paperPass) Embed(_ backend.Tensor, w backend.Weight) { p.d.note("embed %s", name(w)) }

func (p *paperPass) NormProject(_, _, _, _ backend.Tensor, g backend.Norm, q, k, v backend.Weight) {
	p.d.note("project %s %s %s %s", name(g), name(q), name(k), name(v))
}

func (p *paperPass) Attend(_, _, _, _ backend.Tensor, gq, gk backend.Norm, layer int) {
	if gq != nil || gk != nil {
		p.d.note("attend %d, %s %s", layer, name(gq), name(gk))
		return
	}
	p.d.note("attend %d", layer)
}

func (p *paperPass) Delta(_, _ backend.Tensor, g backend.Norm, d backend.Delta, layer int) {
	p.d.note("delta %d, %s %s", layer, name(g), strings.TrimSpace(d.(paperDelta).names))
}

func (p *paperPass) ProjectAdd(_ backend.Tensor, w backend.Weight, _ backend.Tensor) {
	p.d.note("add %s", name(w))
}

func (p *paperPass) NormGateUp(_, _ backend.Tensor, g backend.Norm, gate, up backend.Weight) {
	p.d.note("gate %s %s %s", name(g), name(gate), name(up))
}

func (p *paperPass) Head(out []backend.Output, _ backend.Tensor, g backend.Norm, w backend.Weight, want backend.Want) {
	p.d.note("head %s %s of %v, %d best", name(g), name(w), want.Rows, want.K)
	p.out, p.d.want = out, want
}

func (p *paperPass) Commit() {
	p.d.note("commit")
	p.number = len(p.d.log)
}

func (p *paperPass) Drop() { p.d.note("drop %d", p.number) }

func (p *paperPass) Ran() (begin, end time.Duration) {
	return time.Hour, time.Hour + time.Duration(p.number)
}

func (p *paperPass) Wait(ctx context.Context) error {
	p.d.note("wait %d", p.number)
	return p.End(ctx)
}

func (p *paperPass) End(ctx context.Context) error {
	if p.d.waiting != nil {
		p.d.waiting()
	}
	if p.d.result != nil {
		p.d.result(p.out)
	}
	return p.d.err
}

// paperRouter is a router with a width.
type paperRouter int

func (r paperRouter) Dim() int { return int(r) }

// sheet holds the metadata and the shapes of the tensors of a model with zero weights.
type sheet struct {
	values  map[string]any
	tensors map[string][]int
}

// newSheet returns a model with two layers of width 12, three heads of 4, one KV head, FFN width 16 and 20 tokens, with
// only the required metadata.
func newSheet() *sheet {
	s := &sheet{
		values: map[string]any{
			"general.architecture": "qwen2", "qwen2.block_count": uint32(2), "qwen2.embedding_length": uint32(12),
			"qwen2.feed_forward_length": uint32(16), "qwen2.attention.head_count": uint32(3),
			"qwen2.attention.head_count_kv": uint32(1),
			"qwen2.context_length":          uint32(100), "qwen2.attention.layer_norm_rms_epsilon": float32(0.5),
		},
		tensors: map[string][]int{"token_embd.weight": {12, 20}, "output_norm.weight": {12}, "output.weight": {12, 20}},
	}
	for i := range 2 {
		for name, shape := range map[string][]int{
			"attn_norm.weight": {12}, "ffn_norm.weight": {12},
			"attn_q.weight": {12, 12}, "attn_k.weight": {12, 4}, "attn_v.weight": {12, 4},
			"attn_q.bias": {12}, "attn_k.bias": {4}, "attn_v.bias": {4},
			"attn_output.weight": {12, 12}, "ffn_gate.weight": {12, 16}, "ffn_up.weight": {12, 16},
			"ffn_down.weight": {16, 12},
		} {
			s.tensors[fmt.Sprintf("blk.%d.%s", i, name)] = shape
		}
	}
	return s
}

// newSheet3 returns the same model as a Qwen3: heads of 6 for a width of 12, with norms and without biases.
func newSheet3() *sheet {
	s := newSheet()
	for key, v := range maps.Clone(s.values) {
		if name, ok := strings.CutPrefix(key, "qwen2."); ok {
			delete(s.values, key)
			s.values["qwen3."+name] = v
		}
	}
	s.values["general.architecture"] = "qwen3"
	s.values["qwen3.attention.key_length"], s.values["qwen3.attention.value_length"] = uint32(6), uint32(6)
	for name := range maps.Clone(s.tensors) {
		if strings.HasSuffix(name, ".bias") {
			delete(s.tensors, name)
		}
	}
	for i := range 2 {
		for name, shape := range map[string][]int{
			"attn_q.weight": {12, 18}, "attn_k.weight": {12, 6}, "attn_v.weight": {12, 6},
			"attn_output.weight": {18, 12}, "attn_q_norm.weight": {6}, "attn_k_norm.weight": {6},
		} {
			s.tensors[fmt.Sprintf("blk.%d.%s", i, name)] = shape
		}
	}
	return s
}

// file returns the sheet as a file.
func (s *sheet) file(t *testing.T) *gguf.File {
	t.Helper()
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	for _, k := range slices.Sorted(maps.Keys(s.values)) {
		switch v := s.values[k].(type) {
		case string:
			gguf.Put(w, k, v)
		case float32:
			gguf.Put(w, k, v)
		case uint32:
			gguf.Put(w, k, v)
		case uint64:
			gguf.Put(w, k, v)
		case []int32:
			gguf.PutArray(w, k, v)
		case []bool:
			gguf.PutArray(w, k, v)
		}
	}
	names := slices.Sorted(maps.Keys(s.tensors))
	for _, name := range names {
		w.Declare(name, gguf.F16, s.tensors[name]...)
	}
	for _, name := range names {
		n := 2
		for _, d := range s.tensors[name] {
			n *= d
		}
		_, err := w.Write(make([]byte, n))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	return f
}

// model returns the sheet as a model on paper.
func (s *sheet) model(t *testing.T, d *paper) *transformer.Model {
	t.Helper()
	m, err := transformer.Load(s.file(t), d)
	require.NoError(t, err)
	return m
}

func newKV(t *testing.T, m *transformer.Model, slots int) backend.KV {
	t.Helper()
	kv, err := m.NewKV(slots, gguf.F16)
	require.NoError(t, err)
	return kv
}

// TestReadConfig: every value is read from its own key; a missing one has the default of the format.
func TestReadConfig(t *testing.T) {
	want := transformer.Config{
		Arch:   transformer.Arch{Name: "qwen2", Title: "Qwen2", FFNNorm: "ffn_norm", Biases: true},
		Layers: 2, Dim: 12, FFN: 16, Heads: 3, KVHeads: 1, HeadSize: 4, Context: 100, Vocab: 20,
		RopeBase: 10000, Epsilon: 0.5,
	}
	for _, edit := range []struct {
		key   string
		value any   // nil: missing
		shape []int // of the embedding, if it changes
		want  func(c *transformer.Config)
	}{
		{"general.name", "nobody reads it", nil, func(*transformer.Config) {}},
		{"qwen2.rope.freq_base", float32(500), nil, func(c *transformer.Config) { c.RopeBase = 500 }},
		{"qwen2.attention.head_count_kv", nil, nil, func(c *transformer.Config) { c.KVHeads = 3 }},
		{"qwen2.attention.head_count_kv", uint32(3), nil, func(c *transformer.Config) { c.KVHeads = 3 }},
		{"qwen2.attention.key_length", uint32(4), nil, func(*transformer.Config) {}},
		{"qwen2.attention.value_length", uint32(4), nil, func(*transformer.Config) {}},
		{"qwen2.rope.dimension_count", uint32(4), nil, func(*transformer.Config) {}},
		{"qwen2.rope.scaling.type", "none", nil, func(*transformer.Config) {}},
		{"qwen2.block_count", uint32(1 << 12), nil, func(c *transformer.Config) { c.Layers = 1 << 12 }},
		{"qwen2.block_count", uint32(1), nil, func(c *transformer.Config) { c.Layers = 1 }},
		{"qwen2.feed_forward_length", uint32(1 << 20), nil, func(c *transformer.Config) { c.FFN = 1 << 20 }},
		{"qwen2.context_length", uint32(math.MaxInt32), nil, func(c *transformer.Config) { c.Context = math.MaxInt32 }},
		{"qwen2.attention.layer_norm_rms_epsilon", float32(1e-6), nil,
			func(c *transformer.Config) { c.Epsilon = 1e-6 }},
		{"qwen2.embedding_length", uint32(24), []int{24, 7},
			func(c *transformer.Config) { c.Dim, c.HeadSize, c.Vocab = 24, 8, 7 }},
	} {
		t.Run(fmt.Sprintf("%s %v", edit.key, edit.value), func(t *testing.T) {
			s := newSheet()
			if s.values[edit.key] = edit.value; edit.value == nil {
				delete(s.values, edit.key)
			}
			if edit.shape != nil {
				s.tensors["token_embd.weight"] = edit.shape
			}
			w := want
			edit.want(&w)
			w.Rotated = w.HeadSize
			c, err := transformer.ReadConfig(s.file(t))
			require.NoError(t, err)
			assert.Equal(t, w, c)
		})
	}
	s := newSheet() // heads that are wider than the model
	s.values["qwen2.attention.key_length"], s.values["qwen2.attention.value_length"] = uint32(10), uint32(10)
	s.values["qwen2.embedding_length"], s.tensors["token_embd.weight"] = uint32(11), []int{11, 20}
	c, err := transformer.ReadConfig(s.file(t))
	require.NoError(t, err)
	assert.Equal(t, 11, c.Dim)
	assert.Equal(t, 10, c.HeadSize)
	c, err = transformer.ReadConfig(newSheet3().file(t))
	require.NoError(t, err)
	want.Arch = transformer.Arch{Name: "qwen3", Title: "Qwen3", FFNNorm: "ffn_norm", HeadNorms: true}
	want.HeadSize, want.Rotated = 6, 6
	assert.Equal(t, want, c)
}

// refusedConfig is a value of the metadata, nil if it is missing, and what the error contains.
type refusedConfig struct {
	key   string
	value any
	want  string
}

// refusedConfigs returns values that are missing, of another type or out of range.
func refusedConfigs() []refusedConfig {
	return []refusedConfig{
		{"general.architecture", nil, "general.architecture"},
		{"general.architecture", "qwen3", "qwen3.block_count"},
		{"general.architecture", "llama", `"llama" is not supported, this program runs "qwen2", "qwen3" and "qwen35"`},
		{"general.architecture", "qwen3moe", `"qwen35": it has no mixtures of experts`},
		{"general.architecture", "qwen2moe", "it has no mixtures of experts"},
		{"general.architecture", "qwen35moe", "it has no mixtures of experts"},
		{"general.architecture", "qwen3next", "it has no mixtures of experts"},
		{"general.architecture", "qwen2vl", "it has no positions in images"},
		{"general.architecture", "qwen3vl", "it has no positions in images"},
		{"general.architecture", uint32(2), "general.architecture"},
		{"qwen2.block_count", nil, "qwen2.block_count"},
		{"qwen2.block_count", uint32(0), "qwen2.block_count: 0 is not within 1 to 4096"},
		{"qwen2.block_count", uint32(1<<12 + 1), "qwen2.block_count: 4097 is not within"},
		{"qwen2.block_count", "2", "qwen2.block_count"},
		{"qwen2.embedding_length", nil, "qwen2.embedding_length"},
		{"qwen2.embedding_length", uint32(1<<20 + 1), "qwen2.embedding_length: 1048577 is not within"},
		{"qwen2.embedding_length", uint32(13), "qwen2.attention.head_count: width 13 is no multiple of 3"},
		{"qwen2.embedding_length", uint32(9), "qwen2.attention.head_count: head size 3 is odd"},
		{"qwen2.embedding_length", uint32(24), `"token_embd.weight": shape [12 20], expected [24`},
		{"qwen2.feed_forward_length", nil, "qwen2.feed_forward_length"},
		{"qwen2.feed_forward_length", uint32(1<<20 + 1), "qwen2.feed_forward_length: 1048577 is not within"},
		{"qwen2.attention.head_count", nil, "qwen2.attention.head_count"},
		{"qwen2.attention.head_count", uint32(1<<12 + 1), "qwen2.attention.head_count: 4097 is not within"},
		{"qwen2.attention.head_count_kv", uint32(1<<12 + 1), "qwen2.attention.head_count_kv: 4097 is not within"},
		{"qwen2.attention.head_count_kv", uint32(0), "qwen2.attention.head_count_kv: 0 is not within"},
		{"qwen2.attention.head_count_kv", uint32(2),
			"qwen2.attention.head_count_kv: 3 query heads are no multiple of 2"},
		{"qwen2.attention.head_count_kv", "1", "qwen2.attention.head_count_kv"},
		{"qwen2.attention.key_length", uint32(6), "qwen2.rope.dimension_count: 4 differs from the head size 6"},
		{"qwen2.attention.key_length", uint32(5), "head size 5 is odd"},
		{"qwen2.attention.key_length", uint32(0), "qwen2.attention.key_length: 0 is not within"},
		{"qwen2.attention.value_length", uint32(6), "qwen2.attention.value_length: 6 differs from the key length 4"},
		{"qwen2.rope.dimension_count", uint32(2), "qwen2.rope.dimension_count: 2 differs from the head size 4"},
		{"qwen2.context_length", nil, "qwen2.context_length"},
		{"qwen2.context_length", uint32(0), "qwen2.context_length: 0 is not within"},
		{"qwen2.context_length", uint64(1 << 31), "qwen2.context_length: 2147483648 is not within"},
		{"qwen2.attention.layer_norm_rms_epsilon", nil, "rms_epsilon"},
		{"qwen2.attention.layer_norm_rms_epsilon", float32(0), "rms_epsilon: 0 is not a positive"},
		{"qwen2.attention.layer_norm_rms_epsilon", float32(math.Inf(1)), "rms_epsilon: +Inf is not a positive"},
		{"qwen2.attention.layer_norm_rms_epsilon", float32(math.NaN()), "rms_epsilon: NaN is not a positive"},
		{"qwen2.rope.freq_base", float32(-1), "qwen2.rope.freq_base: -1 is not a positive"},
		{"qwen2.rope.freq_base", "10000", "freq_base: want float, the file has string"},
		{"qwen2.rope.scaling.type", "linear", `"linear" is not supported`},
		{"qwen2.rope.scaling.type", uint32(1), "qwen2.rope.scaling.type"},
	}
}

// TestConfigRefused: the error of a refused value names its key and the reason.
func TestConfigRefused(t *testing.T) {
	for _, c := range refusedConfigs() {
		t.Run(fmt.Sprintf("%s %v", c.key, c.value), func(t *testing.T) {
			s := newSheet()
			if c.key == "qwen2.attention.key_length" && c.value == uint32(6) { // the values have the same length
				s.values["qwen2.attention.value_length"], s.values["qwen2.rope.dimension_count"] = uint32(6), uint32(4)
			}
			if s.values[c.key] = c.value; c.value == nil {
				delete(s.values, c.key)
			}
			_, err := transformer.ReadConfig(s.file(t))
			assert.ErrorContains(t, err, c.want)
		})
	}
	s := newSheet()
	s.values["qwen2.context_length"], s.values["qwen2.attention.head_count_kv"] = uint32(0), uint32(0)
	s.values["qwen2.block_count"] = uint32(0)
	_, err := transformer.ReadConfig(s.file(t))
	assert.ErrorContains(t, err, "qwen2.block_count", "the first of several")
}

// TestEmbeddingRefused: an embedding that is missing or of another shape is refused.
func TestEmbeddingRefused(t *testing.T) {
	for _, shape := range [][]int{{12}, {12, 20, 1}, {11, 20}} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			s := newSheet()
			s.tensors["token_embd.weight"] = shape
			_, err := transformer.ReadConfig(s.file(t))
			assert.ErrorContains(t, err, `"token_embd.weight": shape`)
		})
	}
	s := newSheet()
	delete(s.tensors, "token_embd.weight")
	_, err := transformer.ReadConfig(s.file(t))
	assert.ErrorContains(t, err, `"token_embd.weight": missing`)
}

// TestPassOnPaper: a pass uses each weight, with its bias, in its place in the order of the formulas; without an output
// matrix the embedding is the head.
func TestPassOnPaper(t *testing.T) {
	for _, output := range []string{"output", "token_embd"} {
		s, d := newSheet(), &paper{}
		if output != "output" {
			delete(s.tensors, "output.weight")
		}
		m := s.model(t, d)
		assert.Equal(t, [][2]int{{512, 12}, {512, 12}, {512, 12}, {512, 4}, {512, 4}, {512, 16}}, d.tensors)
		assert.Equal(t, map[string]float32{
			"output_norm.weight": 0.5, "blk.0.attn_norm.weight": 0.5, "blk.0.ffn_norm.weight": 0.5,
			"blk.1.attn_norm.weight": 0.5, "blk.1.ffn_norm.weight": 0.5,
		}, d.norms)
		kv, err := m.NewKV(5, gguf.F32)
		require.NoError(t, err)
		assert.Equal(t, backend.KVConfig{
			Layers: 2, Slots: 5, Heads: 3, KVHeads: 1, HeadSize: 4, Rotated: 4, RopeBase: 10000, Type: gguf.F32,
		}, kv.Config())
		rows := []backend.Row{{Token: 19, Pos: 7, Slot: 0, See: []backend.Span{{From: 0, To: 1}}}}
		require.NoError(t, m.Forward(t.Context(), kv, rows, make([]backend.Output, 1),
			backend.Want{Rows: []int{0}, K: 3}))
		want := []string{"begin 1 rows from 7, token 19", "embed token_embd"}
		for _, p := range []string{"blk.0.", "blk.1."} {
			want = append(want,
				fmt.Sprintf("project %[1]sattn_norm %[1]sattn_q+ %[1]sattn_k+ %[1]sattn_v+", p), "attend "+p[4:5],
				fmt.Sprintf("add %sattn_output", p),
				fmt.Sprintf("gate %[1]sffn_norm %[1]sffn_gate %[1]sffn_up", p), fmt.Sprintf("add %sffn_down", p))
		}
		assert.Equal(t, append(want, "head output_norm "+output+" of [0], 3 best"), d.log)
	}
}

// TestQwen3OnPaper: the norms of heads are at their places and have the file's epsilon. Queries are as wide as their
// heads together.
func TestQwen3OnPaper(t *testing.T) {
	d := &paper{}
	m := newSheet3().model(t, d)
	assert.Equal(t, [][2]int{{512, 12}, {512, 18}, {512, 18}, {512, 6}, {512, 6}, {512, 16}}, d.tensors)
	assert.Len(t, d.norms, 9)
	assert.EqualValues(t, 0.5, d.norms["blk.0.attn_q_norm.weight"])
	kv, err := m.NewKV(5, gguf.F32)
	require.NoError(t, err)
	assert.Equal(t, 6, kv.Config().HeadSize)
	rows := []backend.Row{{See: []backend.Span{{From: 0, To: 1}}}}
	require.NoError(t, m.Forward(t.Context(), kv, rows, make([]backend.Output, 1), backend.Want{Rows: []int{0}, K: 3}))
	for i, p := range []string{"blk.0.", "blk.1."} {
		assert.Equal(t, []string{
			fmt.Sprintf("project %[1]sattn_norm %[1]sattn_q %[1]sattn_k %[1]sattn_v", p),
			fmt.Sprintf("attend %d, %[2]sattn_q_norm %[2]sattn_k_norm", i, p),
			fmt.Sprintf("add %sattn_output", p),
		}, d.log[2+5*i:5+5*i])
	}
	for name, shape := range map[string][]int{
		"blk.0.attn_q_norm.weight": {12}, "blk.1.attn_k_norm.weight": {18}, "blk.0.attn_q.weight": {12, 12},
		"blk.0.attn_output.weight": {12, 12}, "blk.0.attn_k.bias": {6}, "blk.1.attn_q_norm.weight": nil,
		"blk.0.attn_k_norm.weight": nil,
	} {
		s := newSheet3()
		if s.tensors[name] = shape; shape == nil {
			delete(s.tensors, name)
		}
		_, err := transformer.Load(s.file(t), &paper{})
		assert.ErrorContains(t, err, name)
	}
	for _, name := range []string{"blk.0.attn_q_norm.weight", "blk.1.attn_k_norm.weight"} {
		_, err := transformer.Load(newSheet3().file(t), &paper{refuse: name})
		assert.ErrorIs(t, err, errPaper, name)
	}
}

// TestTensorsRefused: a tensor that is missing, of another shape, unknown, or refused by the device, is an error that
// names it.
func TestTensorsRefused(t *testing.T) {
	for name, shape := range newSheet().tensors {
		s := newSheet()
		delete(s.tensors, name)
		_, err := transformer.Load(s.file(t), &paper{})
		if strings.HasSuffix(name, ".bias") || name == "output.weight" {
			assert.NoError(t, err, "without %s", name)
		} else {
			assert.ErrorContains(t, err, fmt.Sprintf("%q: missing", name))
		}
		for i := range shape {
			s = newSheet()
			s.tensors[name] = slices.Clone(shape)
			s.tensors[name][i]++
			if name == "token_embd.weight" && i == 1 {
				delete(s.tensors, "output.weight")
				_, err = transformer.Load(s.file(t), &paper{})
				assert.NoError(t, err, "a vocabulary of any size")
				continue
			}
			_, err = transformer.Load(s.file(t), &paper{})
			assert.ErrorContains(t, err, fmt.Sprintf("%q: shape %v", name, s.tensors[name]))
		}
		if name != "token_embd.weight" {
			s = newSheet()
			s.tensors[name] = append(slices.Clone(shape), 1)
			_, err = transformer.Load(s.file(t), &paper{})
			assert.NoError(t, err, "%s with a dimension of 1", name)
			s.tensors[name] = append(slices.Clone(shape), 2)
			_, err = transformer.Load(s.file(t), &paper{})
			assert.ErrorContains(t, err, fmt.Sprintf("%q: shape", name))
		}
		if !strings.HasSuffix(name, ".bias") {
			_, err = transformer.Load(newSheet().file(t), &paper{refuse: name})
			assert.ErrorIs(t, err, errPaper, name)
		}
	}
	for _, name := range []string{
		"blk.2.attn_norm.weight", "blk.0.attn_q_norm.weight", "output_norm.bias", "rope_freqs.weight",
	} {
		s := newSheet()
		s.tensors[name] = []int{12}
		_, err := transformer.Load(s.file(t), &paper{})
		assert.ErrorContains(t, err, name)
	}
	_, err := transformer.Load(newSheet().file(t), &paper{refuse: "activations"})
	assert.ErrorIs(t, err, errPaper)
	m := newSheet().model(t, &paper{refuse: "kv"})
	_, err = m.NewCache(5, gguf.F16)
	assert.ErrorIs(t, err, errPaper)
}

// TestWideModels: the wider a model, its feed-forward blocks or its queries, the fewer rows it evaluates together.
func TestWideModels(t *testing.T) {
	for name, c := range map[string]struct{ dim, ffn, head, rows int }{
		"not yet wide":        {12, 1 << 15, 4, 512},
		"one column too many": {12, 1<<15 + 1, 4, 511},
		"a wide feed-forward": {12, 1 << 18, 4, 64},
		"wide rows":           {1 << 16, 16, 4, 256},
		"wide queries":        {12, 16, 1 << 14, 341},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newSheet(), &paper{}
			for key, v := range map[string]int{
				"block_count": 1, "embedding_length": c.dim, "feed_forward_length": c.ffn,
				"attention.key_length": c.head,
			} {
				s.values["qwen2."+key] = uint32(v)
			}
			for name := range s.tensors {
				if strings.HasPrefix(name, "blk.1.") {
					delete(s.tensors, name)
				}
			}
			for name, shape := range map[string][]int{
				"token_embd": {c.dim, 20}, "output": {c.dim, 20}, "output_norm": {c.dim},
				"blk.0.attn_norm": {c.dim}, "blk.0.attn_q": {c.dim, 3 * c.head}, "blk.0.attn_k": {c.dim, c.head},
				"blk.0.attn_v": {c.dim, c.head}, "blk.0.attn_output": {3 * c.head, c.dim}, "blk.0.ffn_norm": {c.dim},
				"blk.0.ffn_gate": {c.dim, c.ffn}, "blk.0.ffn_up": {c.dim, c.ffn}, "blk.0.ffn_down": {c.ffn, c.dim},
			} {
				s.tensors[name+".weight"] = shape
			}
			for name, n := range map[string]int{"q": 3 * c.head, "k": c.head, "v": c.head} {
				s.tensors["blk.0.attn_"+name+".bias"] = []int{n}
			}
			m := s.model(t, d)
			for _, size := range d.tensors {
				assert.Equal(t, c.rows, size[0])
			}
			kv := newKV(t, m, 100)
			rows := make([]backend.Row, min(c.rows+1, 100))
			for i := range rows {
				rows[i] = backend.Row{Pos: int32(i), Slot: int32(i), See: []backend.Span{{From: 0, To: int32(i + 1)}}}
			}
			require.NoError(t, m.Forward(t.Context(), kv, rows, nil, backend.Want{}))
			passes := 0
			for _, line := range d.log {
				if strings.HasPrefix(line, "begin") {
					passes++
				}
			}
			assert.Equal(t, (len(rows)+c.rows-1)/c.rows, passes)
		})
	}
}

// mixing is a device that takes rows of several KV stores in a pass.
type mixing struct{ *paper }

func (mixing) Mixes() {}

// TestStoresOfTheirOwn: the slots of a row are those of its own store.
func TestStoresOfTheirOwn(t *testing.T) {
	m, err := transformer.Load(newSheet().file(t), mixing{&paper{}})
	require.NoError(t, err)
	assert.True(t, m.Mixes())
	small := newKV(t, m, 4)
	large := newKV(t, m, 9)
	for slot := range int32(10) {
		for _, own := range []backend.KV{nil, small, large} {
			row := backend.Row{Slot: slot, KV: own, See: []backend.Span{{From: slot, To: slot + 1}}}
			slots := int32(4)
			if own == large {
				slots = 9
			}
			err := m.Forward(t.Context(), small, []backend.Row{row}, nil, backend.Want{})
			if slot < slots {
				assert.NoError(t, err, "slot %d of %d", slot, slots)
			} else {
				assert.ErrorIs(t, err, transformer.ErrContext, "slot %d of %d", slot, slots)
				assert.ErrorContains(t, err, fmt.Sprintf("the KV cache has %d", slots))
			}
		}
	}
}

// rowsOnPaper returns n rows of a text from position 0.
func rowsOnPaper(n int) []backend.Row {
	rows := make([]backend.Row, n)
	for i := range rows {
		rows[i] = backend.Row{
			Token: int32(i % 20), Pos: int32(i), Slot: int32(i), See: []backend.Span{{From: 0, To: int32(i + 1)}},
		}
	}
	return rows
}

// newPieces returns a device with a model and a KV store for batches of several pieces.
func newPieces(t *testing.T) (*paper, *transformer.Model, backend.KV) {
	t.Helper()
	s, d := newSheet(), &paper{}
	s.values["qwen2.context_length"] = uint32(4000)
	m := s.model(t, d)
	return d, m, newKV(t, m, 2000)
}

// wantedOfPieces requests outputs of the first and the last rows of pieces.
func wantedOfPieces() backend.Want {
	return backend.Want{
		Rows: []int{3, 511, 512, 1024, 1535}, K: 2, Logits: true, Hidden: true, Router: paperRouter(12),
	}
}

// takePasses returns the beginning and the head of each pass since the last call.
func (p *paper) takePasses() (all []string) {
	for _, line := range p.log {
		if strings.HasPrefix(line, "begin") || strings.HasPrefix(line, "head") {
			all = append(all, line)
		}
	}
	p.log = nil
	return all
}

// TestPieces: a long batch is evaluated in pieces; each gets its own wanted rows, and its outputs are written where the
// caller expects them.
func TestPieces(t *testing.T) {
	d, m, kv := newPieces(t)
	next := float32(0)
	d.result = func(out []backend.Output) {
		for i := range out {
			next++
			out[i].LogSumExp = next
		}
	}
	out, want := make([]backend.Output, 5), wantedOfPieces()
	require.NoError(t, m.Forward(t.Context(), kv, rowsOnPaper(1536), out, want))
	assert.Equal(t, []string{
		"begin 512 rows from 0, token 0", "head output_norm output of [3 511], 2 best",
		"begin 512 rows from 512, token 12", "head output_norm output of [0], 2 best",
		"begin 512 rows from 1024, token 4", "head output_norm output of [0 511], 2 best",
	}, d.takePasses())
	for i, o := range out {
		assert.EqualValues(t, i+1, o.LogSumExp)
	}
	assert.Equal(t, wantedOfPieces(), want, "the caller's")
	last := wantedOfPieces()
	last.Rows = []int{0, 511}
	assert.Equal(t, last, d.want)
	require.NoError(t, m.Forward(t.Context(), kv, nil, nil, backend.Want{}), "no rows")
	assert.Empty(t, d.log)
}

// TestPiecesWatched: each piece is reported, and gets the wishes of its own rows.
func TestPiecesWatched(t *testing.T) {
	d, m, kv := newPieces(t)
	var ops []backend.Op
	watched := backend.Watch(t.Context(), &backend.Watcher{Tell: func(o backend.Op) {
		o.Begin, o.End = 0, 0
		ops = append(ops, o)
	}})
	each := []backend.WantRow{{K: 1}, {K: 2}, {K: 3, Logits: true}, {K: 4, Hidden: true}, {K: 5}}
	require.NoError(t, m.Forward(watched, kv, rowsOnPaper(1530), make([]backend.Output, 5), backend.Want{
		Rows: []int{3, 511, 512, 1024, 1529}, Each: each, K: 9,
	}))
	assert.Equal(t, each[3:], d.want.Each, "each row keeps its own wishes")
	assert.Equal(t, backend.WantRow{K: 1}, each[0], "the caller's")
	run := backend.Op{Kind: backend.OpRun, Layer: -1, Rows: 512, DeviceBegin: time.Hour, DeviceEnd: time.Hour}
	short := run
	short.Rows = 506
	assert.Equal(t, []backend.Op{run, run, short}, ops)
}

// TestPiecesFail: when the context ends or a piece fails, no further piece begins.
func TestPiecesFail(t *testing.T) {
	d, m, kv := newPieces(t)
	forward := func(ctx context.Context) error {
		return m.Forward(ctx, kv, rowsOnPaper(1536), make([]backend.Output, 5), wantedOfPieces())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	bored := errors.New("bored")
	d.waiting = func() { cancel(bored) }
	require.ErrorIs(t, forward(ctx), bored)
	assert.Len(t, d.takePasses(), 2, "one piece")
	d.waiting, d.err = nil, errPaper
	require.ErrorIs(t, forward(t.Context()), errPaper)
	assert.Len(t, d.takePasses(), 2, "one piece")
	d.err = nil
	piece := 0
	d.result = func(out []backend.Output) {
		for i := range out {
			out[i].LogSumExp = 1
		}
		if piece++; piece == 3 {
			out[len(out)-1].LogSumExp = float32(math.Inf(-1))
		}
	}
	err := forward(t.Context())
	require.ErrorIs(t, err, transformer.ErrNotFinite)
	assert.ErrorContains(t, err, "position 1535")
}

// batch is a change to a batch of two rows of 30 slots, and the expected error.
type batch struct {
	name    string
	row     func(r *backend.Row) // changes the last row
	want    func(w *backend.Want)
	more    int    // outputs beyond the wanted rows
	err     string // "": none
	context bool   // it is ErrContext
}

// visible returns spans with these bounds.
func visible(bounds ...int32) (all []backend.Span) {
	for i := 0; i < len(bounds); i += 2 {
		all = append(all, backend.Span{From: bounds[i], To: bounds[i+1]})
	}
	return all
}

// batchesAtLimits returns batches that are not refused.
func batchesAtLimits() []batch {
	return []batch{
		{name: "good"},
		{name: "the last token", row: func(r *backend.Row) { r.Token = 19 }},
		{name: "the last position", row: func(r *backend.Row) { r.Pos = 99 }},
		{name: "the last slot", row: func(r *backend.Row) { r.Slot, r.See = 29, visible(0, 30) }},
		{name: "the first slot", row: func(r *backend.Row) { r.Slot, r.See = 0, visible(7, 9, 0, 1) }},
		{name: "a span to the end", row: func(r *backend.Row) { r.See = visible(20, 30, 3, 5) }},
		{name: "no best token of none", want: func(w *backend.Want) { w.K, w.Rows = 0, nil }},
	}
}

// refusedRows returns batches with a row that cannot be evaluated with kv.
func refusedRows(kv backend.KV) []batch {
	return []batch{
		{name: "no token", row: func(r *backend.Row) { r.Token = 20 },
			err: "row 1: token 20 is not in the vocabulary of 20"},
		{name: "a negative token", row: func(r *backend.Row) { r.Token = -1 }, err: "row 1: token -1"},
		{name: "no position", row: func(r *backend.Row) { r.Pos = 100 },
			err: "row 1: position 100 lies beyond the model's context of 100", context: true},
		{name: "a negative position", row: func(r *backend.Row) { r.Pos = -1 },
			err: "row 1: position -1", context: true},
		{name: "no slot", row: func(r *backend.Row) { r.Slot, r.See = 30, visible(0, 31) },
			err: "row 1: slot 30 does not exist, the KV cache has 30", context: true},
		{name: "a negative slot", row: func(r *backend.Row) { r.Slot = -1 }, err: "row 1: slot -1", context: true},
		{name: "blind", row: func(r *backend.Row) { r.See = nil }, err: "row 1: it has to see its own slot 4"},
		{name: "not itself", row: func(r *backend.Row) { r.See = visible(0, 4) },
			err: "row 1: it has to see its own slot 4"},
		{name: "not itself last", row: func(r *backend.Row) { r.See = visible(3, 5, 0, 2) },
			err: "row 1: it has to see its own slot 4"},
		{name: "an empty span", row: func(r *backend.Row) { r.See = visible(2, 2, 3, 5) },
			err: "row 1: visible slots [2, 2)"},
		{name: "a span backwards", row: func(r *backend.Row) { r.See = visible(2, 1, 3, 5) },
			err: "row 1: visible slots [2, 1)"},
		{name: "a span before all", row: func(r *backend.Row) { r.See = visible(-1, 1, 3, 5) },
			err: "row 1: visible slots [-1, 1)"},
		{name: "a span beyond the end", row: func(r *backend.Row) { r.See = visible(20, 31, 3, 5) },
			err: "row 1: visible slots [20, 31) of 30"},
		{name: "a row of another store", row: func(r *backend.Row) { r.KV = kv },
			err: "row 1: paper takes no rows of several KV stores"},
	}
}

// refusedWants returns batches with impossible outputs.
func refusedWants() []batch {
	return []batch{
		{name: "few outputs", more: -1, err: "1 outputs for 2 wanted rows"},
		{name: "many outputs", more: 1, err: "3 outputs for 2 wanted rows"},
		{name: "no best token", want: func(w *backend.Want) { w.K = 0 }, err: "0 best tokens wanted"},
		{name: "no best token of a row", want: func(w *backend.Want) { w.Each = []backend.WantRow{{K: 1}, {}} },
			err: "0 best tokens wanted"},
		{name: "few wishes", want: func(w *backend.Want) { w.Each = make([]backend.WantRow, 1) },
			err: "it is said of 1 rows what is wanted, but 2 are"},
		{name: "a row twice", want: func(w *backend.Want) { w.Rows = []int{1, 1} }, err: "wanted row 1 after 1 of 2"},
		{name: "falling rows", want: func(w *backend.Want) { w.Rows = []int{1, 0} }, err: "wanted row 0 after 1 of 2"},
		{name: "no such row", want: func(w *backend.Want) { w.Rows = []int{0, 2} }, err: "wanted row 2 after 0 of 2"},
		{name: "a negative row", want: func(w *backend.Want) { w.Rows = []int{-1, 0} }, err: "wanted row -1"},
	}
}

// TestBatchRefused: an impossible batch is refused before any part of it runs, with the reason; a batch at the limits
// is not refused.
func TestBatchRefused(t *testing.T) {
	d := &paper{}
	m := newSheet().model(t, d)
	kv := newKV(t, m, 30)
	for _, c := range slices.Concat(batchesAtLimits(), refusedRows(kv), refusedWants()) {
		t.Run(c.name, func(t *testing.T) {
			rows := []backend.Row{{Slot: 9, See: visible(9, 10)}, {Pos: 5, Slot: 4, See: visible(0, 2, 3, 5)}}
			want := backend.Want{Rows: []int{0, 1}, K: 1}
			if c.row != nil {
				c.row(&rows[1])
			}
			if c.want != nil {
				c.want(&want)
			}
			d.log = nil
			err := m.Forward(t.Context(), kv, rows, make([]backend.Output, len(want.Rows)+c.more), want)
			if c.err == "" {
				assert.NoError(t, err)
				assert.NotEmpty(t, d.log)
				return
			}
			assert.ErrorContains(t, err, c.err)
			assert.Equal(t, c.context, errors.Is(err, transformer.ErrContext))
			assert.Empty(t, d.log)
		})
	}
}

// TestFlights: flights begin in the order of Start, each after the one that gives its token, whatever the token in its
// own row; Wait returns the results of the head.
func TestFlights(t *testing.T) {
	d := &paper{}
	m := newSheet().model(t, d)
	assert.True(t, m.HasFlights())
	assert.False(t, m.Mixes())
	kv := newKV(t, m, 10)
	rows := rowsOnPaper(3)
	layers := []string{
		"embed token_embd",
		"project blk.0.attn_norm blk.0.attn_q+ blk.0.attn_k+ blk.0.attn_v+", "attend 0", "add blk.0.attn_output",
		"gate blk.0.ffn_norm blk.0.ffn_gate blk.0.ffn_up", "add blk.0.ffn_down",
		"project blk.1.attn_norm blk.1.attn_q+ blk.1.attn_k+ blk.1.attn_v+", "attend 1", "add blk.1.attn_output",
		"gate blk.1.ffn_norm blk.1.ffn_gate blk.1.ffn_up", "add blk.1.ffn_down",
		"head output_norm output of [0], 6 best", "commit",
	}
	draw := backend.Draw{Sampling: terms.Sampling{Temperature: 2, Seed: 3}, MinP: 0.5}
	// the caller's rows are ignored
	want := backend.Want{Rows: []int{4, 5}, K: 6, Logits: true, Router: paperRouter(12), Draw: draw}
	first, err := m.Start(kv, rows[1], want, nil)
	require.NoError(t, err)
	assert.Equal(t, append([]string{"begin 1 rows from 1, token 1"}, layers...), d.log)
	assert.Equal(t, backend.Want{Rows: []int{0}, K: 6, Logits: true, Router: paperRouter(12), Draw: draw}, d.want)
	d.log = nil
	rows[2].Token = -1 // not known
	second, err := m.Start(kv, rows[2], want, first)
	require.NoError(t, err)
	assert.Equal(t, append([]string{"begin at 2 after 14, token 0"}, layers...), d.log)
	d.log = nil
	d.result = func(out []backend.Output) { out[0].LogSumExp, out[0].Entropy = 3, 4 }
	var ran []time.Duration
	tell := func(op backend.Op) { ran = append(ran, op.DeviceBegin, op.DeviceEnd) }
	out, err := first.Wait(backend.Watch(t.Context(), &backend.Watcher{Tell: tell}))
	require.NoError(t, err)
	assert.Equal(t, &backend.Output{LogSumExp: 3, Entropy: 4}, out)
	assert.Equal(t, []time.Duration{time.Hour, time.Hour + 14}, ran)
	second.Drop()
	assert.Equal(t, []string{"wait 14", "drop 14"}, d.log)
	want.Rows = []int{1}
	require.NoError(t, m.Forward(t.Context(), kv, rowsOnPaper(2), make([]backend.Output, 1), want))
	assert.Zero(t, d.want.Draw, "nothing follows a pass")
	d.result = func(out []backend.Output) { out[0].LogSumExp = float32(math.NaN()) }
	_, err = second.Wait(t.Context())
	require.ErrorIs(t, err, transformer.ErrNotFinite)
	assert.ErrorContains(t, err, "position 2")
	d.err = errPaper
	_, err = second.Wait(t.Context())
	require.ErrorIs(t, err, errPaper)
}

// TestFlightsRefused: an invalid flight is refused before anything begins, and the model stays usable.
func TestFlightsRefused(t *testing.T) {
	d := &paper{}
	m := newSheet().model(t, d)
	kv := newKV(t, m, 10)
	row := rowsOnPaper(1)[0]
	for name, try := range map[string]func() (*transformer.Flight, error){
		"hidden": func() (*transformer.Flight, error) {
			return m.Start(kv, row, backend.Want{K: 1, Hidden: true}, nil)
		},
		"none": func() (*transformer.Flight, error) { return m.Start(kv, row, backend.Want{}, nil) },
		"slot": func() (*transformer.Flight, error) {
			return m.Start(kv, backend.Row{Slot: 10, See: []backend.Span{{From: 0, To: 11}}}, backend.Want{K: 1}, nil)
		},
		"token": func() (*transformer.Flight, error) {
			return m.Start(kv, backend.Row{Token: 20, See: row.See}, backend.Want{K: 1}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := try()
			assert.Error(t, err)
			assert.Nil(t, f)
		})
	}
	assert.Empty(t, d.log)
	m.Close() // returns: nothing is in use
}

// standing is a device without flights.
type standing struct{ backend.Device }

// TestStandingDevice: a device without flights says so.
func TestStandingDevice(t *testing.T) {
	d := standing{&paper{}}
	m, err := transformer.Load(newSheet().file(t), d)
	require.NoError(t, err)
	assert.False(t, m.HasFlights())
	kv := newKV(t, m, 10)
	_, err = m.Start(kv, rowsOnPaper(1)[0], backend.Want{K: 1}, nil)
	assert.ErrorContains(t, err, "no flights")
}

// TestClosedModel: Close waits for a running pass or the wait for a flight; afterwards the device is not called.
func TestClosedModel(t *testing.T) {
	for _, what := range []string{"pass", "flight"} {
		bubble.Test(t, func(t *testing.T) {
			d := &paper{}
			m := newSheet().model(t, d)
			kv := newKV(t, m, 10)
			row, want := rowsOnPaper(1), backend.Want{Rows: []int{0}, K: 1}
			f, err := m.Start(kv, row[0], want, nil)
			require.NoError(t, err)
			g, err := m.Start(kv, row[0], want, nil)
			require.NoError(t, err)
			g.Drop()
			over, done, closed := make(chan struct{}), make(chan error, 1), false
			d.waiting = func() { <-over }
			go func() {
				if what == "pass" {
					done <- m.Forward(t.Context(), kv, row, make([]backend.Output, 1), want)
					return
				}
				_, err := f.Wait(t.Context())
				done <- err
			}()
			synctest.Wait()
			go func() {
				m.Close()
				closed = true
			}()
			synctest.Wait()
			assert.False(t, closed, "a %s is running", what)
			close(over)
			synctest.Wait()
			assert.True(t, closed)
			require.NoError(t, <-done)
			d.log = nil
			require.ErrorIs(t, m.Forward(t.Context(), kv, row, make([]backend.Output, 1), want), gguf.ErrClosed)
			_, err = m.NewKV(10, gguf.F16)
			require.ErrorIs(t, err, gguf.ErrClosed)
			_, err = m.NewCache(10, gguf.F16)
			require.ErrorIs(t, err, gguf.ErrClosed)
			_, err = m.Start(kv, row[0], want, nil)
			require.ErrorIs(t, err, gguf.ErrClosed)
			_, err = f.Wait(t.Context())
			require.ErrorIs(t, err, gguf.ErrClosed)
			f.Drop()
			assert.Empty(t, d.log)
			m.Close()
		})
	}
}
