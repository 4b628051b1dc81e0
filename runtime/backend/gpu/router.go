package gpu

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// router is a small network in device memory. Its first layer runs together with the output matrix, in the same
// dispatch, and the rest in the merge.
type router struct {
	dim      int
	features bool
	widths   []int           // outputs of each layer
	rowBytes int             // of the first layer, without the features and padded to four columns
	parts    [3]metal.Buffer // the first layer, its bias, and what merge.metal calls rest
}

func (r *router) Dim() int { return r.dim }

// routerKey identifies a network by the address of its first weights, which do not change.
type routerKey struct {
	weights  *float32
	features bool
}

// LoadRouter implements [backend.RouterDevice]. Loading the same layers again returns the same router.
func (d *Device) LoadRouter(layers []backend.RouterLayer, headFeatures bool) (backend.Router, error) {
	if len(layers) == 0 || len(layers) > kernels.MergeLayers {
		return nil, fmt.Errorf("router: %d layers, 1 to %d are possible", len(layers), kernels.MergeLayers)
	}
	r := &router{dim: layers[0].In, features: headFeatures}
	if headFeatures {
		r.dim -= 2
	}
	for i, l := range layers {
		switch {
		case l.Out < 1 || l.Out > kernels.MergeWidth || r.dim < 1:
			return nil, fmt.Errorf("router layer %d: %d to %d, the kernels give 1 to %d",
				i, l.In, l.Out, kernels.MergeWidth)
		case i > 0 && l.In != layers[i-1].Out, i == len(layers)-1 && l.Out != 1,
			len(l.Weight) != l.In*l.Out, len(l.Bias) != l.Out:
			return nil, fmt.Errorf("router layer %d: %d to %d does not fit", i, l.In, l.Out)
		}
		r.widths = append(r.widths, l.Out)
	}
	key := routerKey{&layers[0].Weight[0], headFeatures}
	if known, ok := d.routers[key]; ok {
		return known, nil
	}
	cols := ceilDiv(r.dim, 4) * 4
	r.rowBytes = 4 * cols
	first := make([]float32, cols*layers[0].Out)
	var rest []float32
	for o := range layers[0].Out {
		copy(first[o*cols:], layers[0].Weight[o*layers[0].In:][:r.dim])
	}
	if headFeatures {
		for i := range 2 {
			for o := range layers[0].Out {
				rest = append(rest, layers[0].Weight[o*layers[0].In+r.dim+i])
			}
		}
	}
	for _, l := range layers[1:] {
		rest = append(append(rest, l.Weight...), l.Bias...)
	}
	for i, part := range [][]float32{first, layers[0].Bias, rest} {
		b, err := d.newBuffer(4 * len(part))
		if err != nil {
			return nil, err
		}
		copy(sliceAs[float32](b.Bytes()), part)
		r.parts[i] = b
	}
	d.routers[key] = r
	return r, nil
}

func (r *router) partBinding(i int) binding {
	if r == nil {
		return binding{}
	}
	return bufferStart(r.parts[i])
}

func (r *router) setMergeArgs(a *kernels.MergeArgs) {
	if r == nil {
		return
	}
	a.Layers, a.Features = uint32(len(r.widths)), boolToUint32(r.features)
	for i, w := range r.widths {
		a.Widths[i] = uint32(w)
	}
}

// clampConfidence returns c, or 0 if c is not a number.
func clampConfidence(c float32) float32 {
	if !(c >= 0) {
		return 0
	}
	return min(c, 1)
}
