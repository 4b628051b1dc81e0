package train

import (
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// evaluateHeldOut evaluates the network by its outputs logits for the held-out prompts: whether to scale these, and how
// good the result is.
func (t *trainer) evaluateHeldOut(r *Result, logits []float64) {
	keep := make([]bool, len(logits))
	for k, i := range r.HeldOut.Rows {
		keep[k] = t.src.Label(i).mayStand()
	}
	r.Scale, r.Shift = 1, 0
	r.Uncalibrated = router.CalibrationError(router.Reliability(scaledVerdicts(logits, keep, 1, 0)))
	one, other := t.splitHalves(r.HeldOut.Rows)
	if scale, shift, ok := fitPlatt(logits, keep, one); ok && len(other) > 0 &&
		scaledLoss(logits, keep, other, scale, shift) < scaledLoss(logits, keep, other, 1, 0) {
		if scale, shift, ok := fitPlatt(logits, keep, append(one, other...)); ok {
			r.Scale, r.Shift = scale, shift
		}
	}
	all := scaledVerdicts(logits, keep, r.Scale, r.Shift)
	r.Loss, r.AUC = router.CrossEntropy(all), router.AUC(all)
	r.Calibration = router.CalibrationError(router.Reliability(all))
}

// splitHalves splits positions by their prompts into two halves, as indexes of rows.
func (t *trainer) splitHalves(rows []int) (one, other []int) {
	const apart = 0x706c617474 // from the hashes of the split
	for k, i := range rows {
		if hashPrompt(t.o.Seed+apart, t.src.Prompt(i))%2 == 0 {
			one = append(one, k)
		} else {
			other = append(other, k)
		}
	}
	return one, other
}

func scaledVerdicts(logits []float64, keep []bool, scale, shift float64) []router.Verdict {
	all := make([]router.Verdict, len(logits))
	for k, z := range logits {
		all[k] = router.Verdict{Confidence: float32(sigmoid(scale*z + shift)), Stands: keep[k]}
	}
	return all
}

func scaledLoss(logits []float64, keep []bool, some []int, scale, shift float64) float64 {
	sum := 0.0
	for _, k := range some {
		sum += crossEntropy(scale*logits[k]+shift, keep[k])
	}
	return sum / float64(len(some))
}

// fitPlatt fits scale and shift to some of the logits by Newton's method on the cross-entropy, with the targets of
// Platt, (n+1)/(n+2) and 1/(n+2) in place of 1 and 0, where n is the number of the kind: so they stay finite if the
// logits separate the kinds. It is not ok if one kind is missing, or if the scale would be negative.
func fitPlatt(logits []float64, keep []bool, some []int) (scale, shift float64, ok bool) {
	n := [2]float64{}
	for _, k := range some {
		n[classIndex(keep[k])]++
	}
	if n[0] == 0 || n[1] == 0 {
		return 1, 0, false
	}
	target := [2]float64{(n[0] + 1) / (n[0] + 2), 1 / (n[1] + 2)}
	at := func(scale, shift float64) (l, ds, dt float64) { // the loss, and Newton's step from here
		var ga, gb, haa, hab, hbb float64
		for _, k := range some {
			z, y := logits[k], target[classIndex(keep[k])]
			u := scale*z + shift
			p := sigmoid(u)
			l += y*crossEntropy(u, true) + (1-y)*crossEntropy(u, false)
			d, h := p-y, p*(1-p)
			ga, gb = ga+d*z, gb+d
			haa, hab, hbb = haa+h*z*z, hab+h*z, hbb+h
		}
		haa, hbb = haa+1e-9, hbb+1e-9
		det := haa*hbb - hab*hab
		return l, (hbb*ga - hab*gb) / det, (haa*gb - hab*ga) / det
	}
	scale, shift = 1, 0
	least, ds, dt := at(scale, shift)
	for range 100 {
		l, ns, nt := at(scale-ds, shift-dt)
		if l < least { // otherwise halve the step, until it is zero
			scale, shift, least = scale-ds, shift-dt, l
			ds, dt = ns, nt
		} else {
			ds, dt = ds/2, dt/2
		}
	}
	return scale, shift, scale > 0
}

// classIndex is 0 for a token that may stand, 1 for one that may not.
func classIndex(keep bool) int {
	if keep {
		return 0
	}
	return 1
}
