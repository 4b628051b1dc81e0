package gpu

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// draw is what the kernels need to guess at the token that package sample will draw.
type draw struct {
	k         int  // minimum number of best tokens that they find
	best      int  // maximum number of best tokens that can be drawn
	rest      bool // others can be drawn too
	sharpness float32
	topP      float32
	minLogit  float32
	pos       uint32
	seed      uint64
}

// maxSharpness is the largest 1/temperature: above it, a lower temperature makes no difference.
const maxSharpness = 1e30

// planDraw returns the draw that a head is to guess at; nil for none.
func (p *pass) planDraw(want backend.Want) *draw {
	o := want.Draw
	if o.Greedy() || len(want.Rows) != 1 {
		return nil
	}
	d := &draw{
		k: 1, best: 1, rest: o.TopK == 0 || o.TopK > maxBest,
		sharpness: float32(min(1/o.Temperature, maxSharpness)), topP: 2, minLogit: -math.MaxFloat32,
		pos: uint32(p.rows[want.Rows[0]].Pos) + 1, seed: o.Seed,
	}
	if o.TopP > 0 && o.TopP < 1 {
		d.topP = float32(o.TopP)
	}
	if o.MinP > 0 {
		d.minLogit = float32(max(o.Temperature*math.Log(o.MinP), -math.MaxFloat32))
	}
	switch cuts := o.TopK > 0 || d.topP < 1 || o.MinP > 0; {
	case !d.rest:
		d.k, d.best = o.TopK, o.TopK
	case cuts:
		d.k, d.best = maxBest, maxBest
	}
	return d
}

func (d *draw) setHeadArgs(a *kernels.HeadArgs) {
	if d == nil || !d.rest {
		return
	}
	a.Draw, a.Sharpness, a.Pos = 1, d.sharpness, d.pos
	a.SeedLow, a.SeedHigh = uint32(d.seed), uint32(d.seed>>32)
}

func (d *draw) setMergeArgs(a *kernels.MergeArgs) {
	if d == nil {
		return
	}
	a.Draw, a.Best, a.Rest = 1, min(uint32(d.best), a.K), boolToUint32(d.rest)
	a.Sharpness, a.TopP, a.MinLogit, a.Pos = d.sharpness, d.topP, d.minLogit, d.pos
	a.SeedLow, a.SeedHigh = uint32(d.seed), uint32(d.seed>>32)
}

func (d *draw) drawnBinding(s *scratch) binding {
	if d == nil {
		return binding{}
	}
	return startOf(s.drawn)
}
