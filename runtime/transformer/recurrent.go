package transformer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// What Qwen3.5 has and the others have not: recurrent layers, gates of attention, rotation of a part of a head, and
// blocks for multi-token prediction, which are left out. Metadata "qwen35.ssm.*" and tensors "blk.N.ssm_*" are named
// after state space models.

// queryWidth returns the number of outputs of the matrix of queries, which has gates too.
func (c Config) queryWidth() int {
	if c.Arch.Recurrent {
		return 2 * c.Heads * c.HeadSize
	}
	return c.Heads * c.HeadSize
}

func (c Config) isRecurrent(layer int) bool { return c.Recurrent != nil && c.Recurrent[layer] }

// LeftOut returns the names of the tensors of a file that a model is loaded without: those of multi-token prediction
// and of images. Its text is the same without them.
func LeftOut(f *gguf.File) (names []string) {
	c, err := ReadConfig(f)
	if err != nil {
		return nil
	}
	for _, t := range f.Tensors() {
		if c.leavesOut(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

func (c Config) leavesOut(tensor string) bool {
	if !c.Arch.Recurrent {
		return false
	}
	for i := range c.Extra {
		if strings.HasPrefix(tensor, fmt.Sprintf("blk.%d.", c.Layers+i)) {
			return true
		}
	}
	return strings.HasPrefix(tensor, "v.") || strings.HasPrefix(tensor, "mm.")
}

// maxState is the maximum number of elements of the states of a layer; a model of 27B has 786,432.
const maxState = 1 << 23

// readRecurrent reads which layers are recurrent, and their shape.
func (m *metadataReader) readRecurrent(c *Config) {
	if m.hasKey("nextn_predict_layers") {
		n, err := m.f.Int(m.keyName("nextn_predict_layers"))
		if m.keepFirstError(err); err == nil && (n < 0 || n >= int64(c.Layers)) {
			m.keepFirstError(fmt.Errorf("%s: %d of %d blocks", m.keyName("nextn_predict_layers"), n, c.Layers))
			return
		}
		c.Extra = int(n)
		c.Layers -= c.Extra
	}
	m.readRecurrentLayers(c)
	inner := m.readCount("ssm.inner_size", maxWidth)
	d := backend.DeltaConfig{
		KeyHeads: m.readCount("ssm.group_count", maxHeads), ValueHeads: m.readCount("ssm.time_step_rank", maxHeads),
		KeySize: m.readCount("ssm.state_size", maxWidth), Kernel: m.readCount("ssm.conv_kernel", backend.DeltaChunk),
		Epsilon: c.Epsilon,
	}
	for _, r := range c.Recurrent {
		if r {
			d.Layers++
		}
	}
	switch {
	case m.err != nil:
		return
	case d.ValueHeads%d.KeyHeads != 0:
		m.keepFirstError(fmt.Errorf("%s: %d value heads are no multiple of %d key heads",
			m.keyName("ssm.time_step_rank"), d.ValueHeads, d.KeyHeads))
	case inner%d.ValueHeads != 0:
		m.keepFirstError(fmt.Errorf("%s: %d is no multiple of %d value heads", m.keyName("ssm.inner_size"), inner,
			d.ValueHeads))
	case d.KeyHeads*d.KeySize > maxWidth, inner*d.KeySize > maxState:
		m.keepFirstError(fmt.Errorf("%s: %d key heads of %d, for values of %d", m.keyName("ssm.state_size"), d.KeyHeads,
			d.KeySize, inner))
	case d.Layers == len(c.Recurrent):
		m.keepFirstError(fmt.Errorf("%s: no layer has attention", m.keyName("full_attention_interval")))
	}
	if d.ValueSize = inner / max(d.ValueHeads, 1); d.Layers > 0 {
		c.Delta = d
	}
	m.checkSections()
}

// readRecurrentLayers reads the list of layers or, in older files, the interval of those with attention.
func (m *metadataReader) readRecurrentLayers(c *Config) {
	c.Recurrent = make([]bool, c.Layers)
	v, err := m.f.Value(m.keyName("attention.recurrent_layers"))
	switch {
	case err == nil:
		i := 0
		for e := range v.Elements() {
			if is, ok := e.Any().(bool); ok && i < c.Layers {
				c.Recurrent[i] = is
				i++
			}
		}
		if i < c.Layers {
			m.keepFirstError(fmt.Errorf("%s: %s, expected a bool for each of %d layers",
				m.keyName("attention.recurrent_layers"), v.Type(), c.Layers))
		}
	case !errors.Is(err, gguf.ErrAbsent):
		m.keepFirstError(err)
	default:
		interval := m.readCountOr("full_attention_interval", 4, maxLayers)
		for i := range c.Recurrent {
			c.Recurrent[i] = m.err == nil && (i+1)%interval != 0
		}
	}
}

// checkSections refuses sections of the rotation by which a pair would not be rotated in text. Each pair is rotated by
// one of three positions, of time, height and width, which in text are all the position of the token.
func (m *metadataReader) checkSections() {
	name := m.keyName("rope.dimension_sections")
	sections, err := m.f.Ints(name)
	switch {
	case errors.Is(err, gguf.ErrAbsent):
		return
	case err != nil:
		m.keepFirstError(err)
		return
	case len(sections) < 3:
		m.keepFirstError(fmt.Errorf("%s: %d sections, at least 3 are needed", name, len(sections)))
		return
	}
	total := int64(0)
	for _, s := range sections {
		if s < 0 || s > maxWidth {
			m.keepFirstError(fmt.Errorf("%s: a section of %d", name, s))
			return
		}
		total += s
	}
	for pair := int64(0); pair < min(total, int64(m.readCountOr("rope.dimension_count", 0, maxWidth))/2); pair++ {
		if pair >= 3*sections[pair%3] {
			m.keepFirstError(fmt.Errorf("%s: %v leave pair %d without a position", name, sections, pair))
			return
		}
	}
}

func (l *loader) loadRecurrent(w *layerWeights, prefix string) {
	c, d := l.c, l.c.Delta
	w.wo = l.loadMatrix(prefix+"ssm_out", c.Dim, d.ValueWidth())
	of := backend.DeltaWeights{
		Mixed: l.loadMatrix(prefix+"attn_qkv", d.Channels(), c.Dim),
		Gate:  l.loadMatrix(prefix+"attn_gate", d.ValueWidth(), c.Dim),
		Beta:  l.loadMatrix(prefix+"ssm_beta", d.ValueHeads, c.Dim),
		Alpha: l.loadMatrix(prefix+"ssm_alpha", d.ValueHeads, c.Dim),
	}
	for _, v := range []struct {
		to    *gguf.Tensor
		name  string
		shape []int
	}{
		{&of.Conv, "ssm_conv1d.weight", []int{d.Kernel, d.Channels()}}, {&of.A, "ssm_a", []int{d.ValueHeads}},
		{&of.Step, "ssm_dt.bias", []int{d.ValueHeads}}, {&of.Norm, "ssm_norm.weight", []int{d.ValueSize}},
	} {
		*v.to, _ = l.findTensor(prefix+v.name, v.shape...)
	}
	if l.err != nil {
		return
	}
	var err error
	w.delta, err = l.d.LoadDelta(d, of)
	l.keepFirstError(err)
}

// replayStates evaluates the rows again whose recurrent states rows need and the store has dropped.
func (m *Model) replayStates(ctx context.Context, kv backend.KV, rows []backend.Row) error {
	if m.config.Recurrent == nil {
		return nil
	}
	states := kv.(backend.DeltaKV)
	for {
		again := states.Replay(rows)
		if len(again) == 0 {
			return nil
		}
		for len(again) > 0 {
			n := min(len(again), m.rows)
			if err := m.runPass(ctx, kv, again[:n], nil, backend.Want{}); err != nil {
				return err
			}
			again = again[n:]
		}
	}
}

// trimStates bounds the memory of the states of all stores that rows have used.
func (m *Model) trimStates(kv backend.KV, rows []backend.Row) {
	if m.config.Recurrent == nil {
		return
	}
	d := m.config.Delta
	var last backend.KV
	for _, r := range rows {
		if store := r.KVOf(kv); store != last {
			slots := store.Config().Slots
			store.(backend.DeltaKV).Trim(d.Checkpoints(slots), d.Updates(slots))
			last = store
		}
	}
}
