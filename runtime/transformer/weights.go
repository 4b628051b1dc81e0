package transformer

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// weights are the tensors of a model on a device, named as in the papers.
type weights struct {
	embedding backend.Weight // [Vocab, D]
	layers    []layerWeights
	norm      backend.Norm   // [D], before the output matrix
	output    backend.Weight // [Vocab, D]; the embedding if the file ties them
}

type layerWeights struct {
	attnNorm   backend.Norm   // [D]
	delta      backend.Delta  // in place of wq, wk and wv; nil in layers with attention
	wq, wk, wv backend.Weight // [H·Dh, D], [Hkv·Dh, D] twice
	qNorm      backend.Norm   // [Dh], of each head of q; nil without [Arch].HeadNorms
	kNorm      backend.Norm   // [Dh], of each head of k; nil without them
	wo         backend.Weight // [D, H·Dh], or [D, value width] of a recurrent layer
	ffnNorm    backend.Norm   // [D]
	wGate, wUp backend.Weight // [F, D]
	wDown      backend.Weight // [D, F]
}

// loader reads tensors of a file by name, checks their shapes, and keeps the first error.
type loader struct {
	f    *gguf.File
	d    backend.Device
	c    Config
	used map[string]bool
	err  error
}

// loadWeights loads every tensor of f. A tensor that is missing, has another shape, or is unknown to the model causes
// an error that names it.
func loadWeights(f *gguf.File, d backend.Device, c Config) (weights, error) {
	l := &loader{f: f, d: d, c: c, used: map[string]bool{}}
	w := weights{
		embedding: l.loadMatrix("token_embd", c.Vocab, c.Dim),
		norm:      l.loadNorm("output_norm", c.Dim),
		layers:    make([]layerWeights, c.Layers),
	}
	w.output = w.embedding
	if _, ok := f.Tensor("output.weight"); ok {
		w.output = l.loadMatrix("output", c.Vocab, c.Dim)
	}
	for i := range w.layers {
		if l.err != nil {
			break
		}
		w.layers[i] = l.loadLayer(fmt.Sprintf("blk.%d.", i), c.isRecurrent(i))
	}
	l.refuseUnused()
	return w, l.err
}

func (l *loader) loadLayer(prefix string, recurrent bool) layerWeights {
	c := l.c
	w := layerWeights{
		attnNorm: l.loadNorm(prefix+"attn_norm", c.Dim),
		ffnNorm:  l.loadNorm(prefix+c.Arch.FFNNorm, c.Dim),
		wGate:    l.loadMatrix(prefix+"ffn_gate", c.FFN, c.Dim),
		wUp:      l.loadMatrix(prefix+"ffn_up", c.FFN, c.Dim),
		wDown:    l.loadMatrix(prefix+"ffn_down", c.Dim, c.FFN),
	}
	if recurrent {
		l.loadRecurrent(&w, prefix)
		return w
	}
	query, kv := c.Heads*c.HeadSize, c.KVHeads*c.HeadSize
	w.wq = l.loadMatrix(prefix+"attn_q", c.queryWidth(), c.Dim)
	w.wk = l.loadMatrix(prefix+"attn_k", kv, c.Dim)
	w.wv = l.loadMatrix(prefix+"attn_v", kv, c.Dim)
	w.wo = l.loadMatrix(prefix+"attn_output", c.Dim, query)
	if c.Arch.HeadNorms {
		w.qNorm = l.loadNorm(prefix+"attn_q_norm", c.HeadSize)
		w.kNorm = l.loadNorm(prefix+"attn_k_norm", c.HeadSize)
	}
	return w
}

// loadMatrix loads NAME.weight, [out, in], and NAME.bias, [out], if the architecture has biases and the file this one.
func (l *loader) loadMatrix(name string, out, in int) backend.Weight {
	m, ok := l.findTensor(name+".weight", in, out)
	if !ok {
		return nil
	}
	var bias *gguf.Tensor
	if _, has := l.f.Tensor(name + ".bias"); has && l.c.Arch.Biases {
		b, ok := l.findTensor(name+".bias", out)
		if !ok {
			return nil
		}
		bias = &b
	}
	w, err := l.d.LoadWeight(m, bias)
	l.keepFirstError(err)
	return w
}

func (l *loader) loadNorm(name string, n int) backend.Norm {
	g, ok := l.findTensor(name+".weight", n)
	if !ok {
		return nil
	}
	w, err := l.d.LoadNorm(g, l.c.Epsilon)
	l.keepFirstError(err)
	return w
}

// findTensor finds a tensor of the given shape, fastest-varying dimension first. Dimensions of 1 at the end do not
// count.
func (l *loader) findTensor(name string, shape ...int) (gguf.Tensor, bool) {
	t, ok := l.f.Tensor(name)
	if !ok {
		l.keepFirstError(fmt.Errorf("tensor %q: missing", name))
		return t, false
	}
	l.used[name] = true
	dims := t.Shape
	for len(dims) > len(shape) && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	same := len(dims) == len(shape)
	for i := 0; same && i < len(dims); i++ {
		same = dims[i] == shape[i]
	}
	if !same {
		l.keepFirstError(fmt.Errorf("tensor %q: shape %v, the metadata asks for %v", name, t.Shape, shape))
	}
	t.Shape = dims
	return t, same
}

// refuseUnused refuses tensors that are not used: a model with them is not the one that this package runs. Those of
// [LeftOut] do not count.
func (l *loader) refuseUnused() {
	for _, t := range l.f.Tensors() {
		if l.err == nil && !l.used[t.Name] && !l.c.leavesOut(t.Name) {
			l.keepFirstError(fmt.Errorf("tensor %s: a %s model of %d layers has no such tensor",
				errs.Quote(t.Name), l.c.Arch.Name, l.c.Layers))
		}
	}
}

func (l *loader) keepFirstError(err error) {
	if l.err == nil {
		l.err = err
	}
}
