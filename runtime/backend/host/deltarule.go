package host

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
)

// deltaRule is the arithmetic of the gated delta rule within a chunk.
type deltaRule struct {
	// products sets dst[r] = Σᵢ x[r,i]·m[i] of the keys and queries x [tokens, 2, rows] and a matrix m [rows, cols].
	products func(dst, x, m []float32, tokens, cols int)
	// project is products with a state, nil if it is zero, where the sums below need it.
	project func(dst, x, state []float32, tokens, cols int)
	// decay sets since[j] = exp(logs[n-1] - logs[j]) for the n logs, and returns exp(logs[n-1]). since has one element
	// more.
	decay func(since, logs []float32) (whole float32)
	// correct sets dst = beta·(v - sum), and read dst = sum.
	correct func(dst, v []float32, beta float64, sum deltaSum)
	read    func(dst []float32, sum deltaSum)
	// add sets into = whole·S + Σⱼ since[j]·keys[·,j]·errors[j]ᵀ, of a whole chunk. into may be S; a nil S is zero.
	add func(into, state []float32, whole float32, keys, errors, since, scaled []float32)
}

// deltaSum is whole·Sᵀx + Σⱼ since[j]·scores[j]·errors[j] for a state S [KeySize, ValueSize], and errors
// [.., ValueSize].
type deltaSum struct {
	state, x      []float32 // a nil state is zero
	product       []float32 // Sᵀx, if [deltaRule].project sets it
	whole         float32
	scores, since []float32
	errors        []float32
	weights       []float32 // [chunk+1] memory
}

func fastDeltaRule() deltaRule {
	return deltaRule{
		products: multiplyPairs, project: projectDelta, decay: decayDelta, correct: correctDelta, read: readDelta,
		add: addDelta,
	}
}

// multiplyPairs multiplies the vectors of four tokens at a time, then those of one. Each sum is computed in the same
// order.
func multiplyPairs(dst, x, m []float32, tokens, cols int) {
	rows, t := len(m)/cols, 0
	clear(dst[:2*tokens*cols])
	for ; t+vector.Queries/2 <= tokens; t += vector.Queries / 2 {
		vector.MixF32(dst[2*t*cols:][:vector.Queries*cols], x[2*t*rows:], rows, rows, m, cols)
	}
	for ; t < tokens; t++ {
		to := dst[2*t*cols:][:vector.Queries*cols]
		clear(to[:2*cols])
		vector.PairMixF32(to, x[2*t*rows:], rows, rows, m, cols)
	}
}

func projectDelta(dst, x, state []float32, tokens, cols int) {
	if state == nil {
		clear(dst[:2*tokens*cols])
		return
	}
	multiplyPairs(dst, x, state, tokens, cols)
}

func decayDelta(since, logs []float32) (whole float32) {
	n := len(logs)
	last := logs[n-1]
	for i, v := range logs {
		since[i] = last - v
	}
	since[n] = last
	vector.Exp(since[:n+1], since[:n+1])
	return since[n]
}

func correctDelta(dst, v []float32, beta float64, sum deltaSum) {
	b, weights := float32(beta), sum.weights[:1+len(sum.scores)]
	weights[0] = -b * sum.whole
	for j, s := range sum.scores {
		weights[1+j] = -b * s * sum.since[j]
	}
	vector.Scale(dst, v, b)
	vector.AddWeightedSum(dst, weights[:1], sum.product, 0)
	vector.AddWeightedSum(dst, weights[1:], sum.errors, len(dst))
}

func readDelta(dst []float32, sum deltaSum) {
	weights := sum.weights[:len(sum.scores)]
	for j, s := range sum.scores {
		weights[j] = s * sum.since[j]
	}
	vector.Scale(dst, sum.product, sum.whole)
	vector.AddWeightedSum(dst, weights, sum.errors, len(dst))
}

func addDelta(into, state []float32, whole float32, keys, errors, since, scaled []float32) {
	n := len(errors) / chunkTokens
	for j, s := range since[:chunkTokens] {
		vector.Scale(scaled[j*n:][:n], errors[j*n:], s)
	}
	for first := 0; first < len(into); first += vector.Queries * n {
		part := into[first:min(first+vector.Queries*n, len(into))]
		if state == nil {
			clear(part)
		} else {
			vector.Scale(part, state[first:][:len(part)], whole)
		}
		keys := keys[first/n*chunkTokens:]
		if len(part) == vector.Queries*n {
			vector.MixF32(part, keys, chunkTokens, chunkTokens, scaled, n)
			continue
		}
		for i := 0; i < len(part); i += n {
			vector.AddWeightedSum(part[i:i+n], keys[i/n*chunkTokens:][:chunkTokens], scaled, n)
		}
	}
}

// exactDeltaRule is plain Go in float64, rounded to float32 where results are stored.
func exactDeltaRule() deltaRule {
	return deltaRule{
		products: multiplyPairsExact, project: func(_, _, _ []float32, _, _ int) {}, decay: decayExact,
		correct: correctExact, read: readExact, add: addDeltaExact,
	}
}

func multiplyPairsExact(dst, x, m []float32, tokens, cols int) {
	rows := len(m) / cols
	for r := range 2 * tokens {
		for c := range cols {
			sum := 0.0
			for i, v := range x[r*rows : (r+1)*rows] {
				sum += float64(v) * float64(m[i*cols+c])
			}
			dst[r*cols+c] = float32(sum)
		}
	}
}

func decayExact(since, logs []float32) (whole float32) {
	last := float64(logs[len(logs)-1])
	for i, v := range logs {
		since[i] = float32(math.Exp(last - float64(v)))
	}
	return float32(math.Exp(last))
}

func correctExact(dst, v []float32, beta float64, sum deltaSum) {
	readExact(dst, sum)
	for i := range dst {
		dst[i] = float32(beta * (float64(v[i]) - float64(dst[i])))
	}
}

func readExact(dst []float32, s deltaSum) {
	n := len(dst)
	for c := range dst {
		sum := 0.0
		for i := 0; i < len(s.state); i += n {
			sum += float64(s.x[i/n]) * float64(s.state[i+c])
		}
		sum *= float64(s.whole)
		for j, score := range s.scores {
			sum += float64(score) * float64(s.since[j]) * float64(s.errors[j*n+c])
		}
		dst[c] = float32(sum)
	}
}

func addDeltaExact(into, state []float32, whole float32, keys, errors, since, _ []float32) {
	n := len(errors) / chunkTokens
	for i := range into {
		sum := 0.0
		if state != nil {
			sum = float64(whole) * float64(state[i])
		}
		for j, s := range since[:chunkTokens] {
			sum += float64(s) * float64(keys[i/n*chunkTokens+j]) * float64(errors[j*n+i%n])
		}
		into[i] = float32(sum)
	}
}
