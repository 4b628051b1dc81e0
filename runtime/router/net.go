package router

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

const (
	architecture = "pilotfish-router"
	keyInput     = ".embedding_length"
	keyHidden    = ".hidden_length"
	keyFeatures  = ".head_features"
	prefixRouter = "router" // of the names of tensors

	maxLayers = 16
	maxWidth  = 1 << 16
)

// ErrNotRouter is returned for a GGUF file that is not a router.
var ErrNotRouter = errors.New("not a router: general.architecture is not " + architecture)

// Layer is a linear map: y[o] = Bias[o] + Σᵢ Weight[o·In + i]·x[i].
type Layer struct {
	In, Out int
	Weight  []float32 // [Out, In]
	Bias    []float32 // [Out]
}

// Net is the learned router: linear layers with ReLU between them and a sigmoid at the end. Its input is the hidden
// state after the final norm, with HeadFeatures followed by the margin and the certainty exp(-H) of the head.
//
// In a file the layers are router.0, router.2, router.4 …, as PyTorch counts them in a Sequential with the ReLUs
// between, each with .weight [In, Out] in GGUF's order and .bias [Out], both F32. A Net does not change and may be used
// by many routers.
type Net struct {
	HeadFeatures bool
	Layers       []Layer
	width        int // of the widest vector
}

// NewNet checks that the layers fit each other.
func NewNet(layers []Layer, headFeatures bool) (*Net, error) {
	if len(layers) == 0 {
		return nil, errors.New("a router without layers")
	}
	width := 0
	for i, l := range layers {
		switch {
		case l.In < 1 || l.Out < 1 || l.In > maxWidth || l.Out > maxWidth:
			return nil, fmt.Errorf("router layer %d: %d to %d, each has to be 1 to %d", i, l.In, l.Out, maxWidth)
		case len(l.Weight) != l.In*l.Out || len(l.Bias) != l.Out:
			return nil, fmt.Errorf("router layer %d: %d weights and %d biases for %d to %d",
				i, len(l.Weight), len(l.Bias), l.In, l.Out)
		case i > 0 && l.In != layers[i-1].Out:
			return nil, fmt.Errorf("router layer %d takes %d inputs, layer %d gives %d", i, l.In, i-1, layers[i-1].Out)
		}
		width = max(width, l.In, l.Out)
	}
	if out := layers[len(layers)-1].Out; out != 1 {
		return nil, fmt.Errorf("the last layer of a router gives one number, not %d", out)
	}
	n := &Net{HeadFeatures: headFeatures, Layers: layers, width: width}
	if n.Dim() < 1 {
		return nil, fmt.Errorf("a router with %d inputs has no room for a hidden state beside the features of the head",
			layers[0].In)
	}
	return n, nil
}

// ReadNet reads the network of the policy learned from a router file. It does not refer to f. nil: there is none.
func ReadNet(f *gguf.File) (*Net, error) {
	if arch, err := f.String("general.architecture"); err != nil || arch != architecture {
		return nil, fmt.Errorf("%w: %q", ErrNotRouter, arch)
	}
	return readNet(f, prefixRouter)
}

func keyPrefix(prefix string) string {
	if prefix == prefixRouter {
		return architecture
	}
	return architecture + "." + prefix
}

// readNet returns the network whose tensors have names with a prefix; nil if there are none.
func readNet(f *gguf.File, prefix string) (*Net, error) {
	features, err := f.Bool(keyPrefix(prefix) + keyFeatures)
	if err != nil && !errors.Is(err, gguf.ErrAbsent) {
		return nil, err
	}
	layers, err := readLayers(f, prefix)
	if err != nil || len(layers) == 0 {
		return nil, err
	}
	n, err := NewNet(layers, features)
	if err != nil {
		return nil, err
	}
	for _, k := range []struct {
		key  string
		want int
	}{{keyPrefix(prefix) + keyInput, n.Dim()}, {keyPrefix(prefix) + keyHidden, layers[0].Out}} {
		if got, err := f.Int(k.key); err != nil {
			return nil, fmt.Errorf("%s: %w", k.key, err)
		} else if got != int64(k.want) {
			return nil, fmt.Errorf("%s is %d, the tensors say %d", k.key, got, k.want)
		}
	}
	return n, nil
}

func readLayers(f *gguf.File, prefix string) (layers []Layer, err error) {
	for i := range maxLayers {
		name := fmt.Sprintf("%s.%d", prefix, 2*i)
		w, ok := f.Tensor(name + ".weight")
		if !ok {
			break
		}
		if len(w.Shape) != 2 {
			return nil, fmt.Errorf("%s.weight has %d dimensions instead of 2", name, len(w.Shape))
		}
		l := Layer{In: w.Shape[0], Out: w.Shape[1]}
		if l.Weight, err = copyFloats(w); err != nil {
			return nil, err
		}
		b, ok := f.Tensor(name + ".bias")
		if !ok {
			return nil, fmt.Errorf("%s.bias: %w", name, gguf.ErrAbsent)
		}
		if l.Bias, err = copyFloats(b); err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil
}

func copyFloats(t gguf.Tensor) ([]float32, error) {
	if t.Type != gguf.F32 {
		return nil, fmt.Errorf("%s is %s, a router has F32", t.Name, t.Type)
	}
	x := make([]float32, t.Elems())
	t.Type.Dequantize(x, t.Data)
	for i, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%s[%d]: %w", t.Name, i, gguf.ErrNotFinite)
		}
	}
	return x, nil
}

// Write stores the network as a router file without other information; see [File.Write].
func (n *Net) Write(w *gguf.Writer) error { return (&File{Net: n}).Write(w) }

// writeKeys stores what the keys of a file say of the network. It does nothing for nil.
func (n *Net) writeKeys(w *gguf.Writer, prefix string) {
	if n == nil {
		return
	}
	gguf.Put(w, keyPrefix(prefix)+keyInput, uint32(n.Dim()))
	gguf.Put(w, keyPrefix(prefix)+keyHidden, uint32(n.Layers[0].Out))
	if n.HeadFeatures {
		gguf.Put(w, keyPrefix(prefix)+keyFeatures, true)
	}
}

// declareTensors declares the tensors, which writeTensors then writes. Both do nothing for nil.
func (n *Net) declareTensors(w *gguf.Writer, prefix string) {
	for i, l := range n.layersOrNone() {
		w.Declare(fmt.Sprintf("%s.%d.weight", prefix, 2*i), gguf.F32, l.In, l.Out)
		w.Declare(fmt.Sprintf("%s.%d.bias", prefix, 2*i), gguf.F32, l.Out)
	}
}

func (n *Net) writeTensors(w *gguf.Writer) error {
	for _, l := range n.layersOrNone() {
		if err := w.WriteFloats(l.Weight); err != nil {
			return err
		}
		if err := w.WriteFloats(l.Bias); err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) layersOrNone() []Layer {
	if n == nil {
		return nil
	}
	return n.Layers
}

// Hash identifies a network: two with the same hash give the same outputs. That of nil is "".
func (n *Net) Hash() string {
	if n == nil {
		return ""
	}
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // unreachable: its numbers are finite
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Dim returns the width of the hidden state that the network was trained on.
func (n *Net) Dim() int {
	if n.HeadFeatures {
		return n.Layers[0].In - 2
	}
	return n.Layers[0].In
}

// Confidence returns sigmoid(f(features of head)). A hidden state of another width is a bug of the caller and panics.
func (n *Net) Confidence(head *backend.Output) float32 {
	if !n.HeadFeatures {
		return n.Of(head.Hidden, 0, 0)
	}
	return n.Of(head.Hidden, headMargin(head), headCertainty(head))
}

// Of returns the confidence for a hidden state [Dim], a margin p₁ - p₂ and a certainty exp(-H). A network without
// HeadFeatures uses only the hidden state. A hidden state of another width is a bug of the caller and panics.
func (n *Net) Of(hidden []float32, margin, certainty float32) float32 {
	if len(hidden) != n.Dim() {
		panic(fmt.Sprintf("router: a hidden state of %d for a network of %d", len(hidden), n.Dim()))
	}
	x, y := make([]float32, n.width), make([]float32, n.width)
	copy(x, hidden)
	if n.HeadFeatures {
		x[n.Dim()], x[n.Dim()+1] = margin, certainty
	}
	for i, l := range n.Layers {
		l.applyLayer(y, x)
		if i < len(n.Layers)-1 {
			for o, v := range y[:l.Out] {
				y[o] = max(v, 0)
			}
		}
		x, y = y, x
	}
	return clampUnit(1 / (1 + math.Exp(-float64(x[0]))))
}

// applyLayer sets y = W·x + b, summing in float64.
func (l Layer) applyLayer(y, x []float32) {
	for o := range l.Out {
		sum := float64(l.Bias[o])
		for i, w := range l.Weight[o*l.In : (o+1)*l.In] {
			sum += float64(w) * float64(x[i])
		}
		y[o] = float32(sum)
	}
}
