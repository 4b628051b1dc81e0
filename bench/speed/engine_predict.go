package speed

import (
	"context"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Prediction is the prediction of package metalplan for a generation, beside the measurement: predicted over measured
// shows the errors of that model.
type Prediction struct {
	GenerationTPS float64 `json:"generation_tps,omitempty"` // predicted, for a token in the middle of the generation
	TokenUS       float64 `json:"token_us,omitempty"`       // the time of that token
	MeasuredUS    float64 `json:"measured_token_us"`        // 1e6 divided by generation_tps of the report
	Context       int     `json:"context_tokens,omitempty"` // that the token attends to, including itself
	// dispatches of that token, equal ones combined
	Dispatches []metalplan.Work `json:"dispatches,omitempty"`
	// the figures of the GPU, with the number of cores of the larger variant if there are two with its name
	GPU     *metalplan.GPU       `json:"gpu,omitempty"`
	Assumed *metalplan.Constants `json:"assumed,omitempty"`  // for every GPU
	Why     string               `json:"why_none,omitempty"` // why no prediction is possible
}

// predict returns the prediction for the generation of r, on the GPU with a name of Metal.
func (r *Report) predict(ctx context.Context, name string, f *gguf.File) *Prediction {
	p := &Prediction{MeasuredUS: 1e6 / r.GenerationTPS}
	g, known := metalplan.Called(name)
	if !known {
		p.Why = fmt.Sprintf("%s is not among the GPUs that there are figures for", name)
		return p
	}
	kv := gguf.F16
	if r.KV == string(engine.KVF32) {
		kv = gguf.F32
	}
	n := max(firstPrompt, r.Depth) + (r.DecodedTokens+1)/2
	plan, err := metalplan.PredictFile(ctx, g, f, kv, n)
	if err != nil {
		p.Why = err.Error()
		return p
	}
	p.GenerationTPS, p.TokenUS, p.Context, p.GPU, p.Dispatches = plan.Tokens, plan.Micros, n, &g, plan.Dispatches
	p.Assumed = new(metalplan.Assumed())
	return p
}
