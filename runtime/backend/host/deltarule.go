package host

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"

// deltaRule is the arithmetic of the gated delta rule within a chunk.
type deltaRule struct {
	// scores sets dst[j] = Σᵢ x[i]·keys[i,j], [chunk] of [KeySize, chunk].
	scores func(dst, x, keys []float32)
	// mix sets sums.o = whole·Sᵀx + Σⱼ since[j]·scores[j]·errors[j], where a nil state S [KeySize, ValueSize] is zero.
	mix func(sums deltaSums, state, x []float32, whole float32, errors, scores, since []float32)
	// add sets into = whole·S + Σⱼ since[j]·keys[·,j]·errors[j]ᵀ, of a whole chunk.
	add func(into, state []float32, whole float32, keys, errors, since []float32)
}

func fastDeltaRule() deltaRule {
	return deltaRule{
		scores: func(dst, x, keys []float32) { vector.WeightedSum(dst, x, keys, chunkTokens) },
		mix:    mixDelta,
		add:    addDelta,
	}
}

func mixDelta(sums deltaSums, state, x []float32, whole float32, errors, scores, since []float32) {
	var weights [chunkTokens]float32
	for j, s := range scores {
		weights[j] = s * since[j]
	}
	n := len(sums.o)
	vector.WeightedSum(sums.fromChunk, weights[:len(scores)], errors, n)
	if state == nil {
		copy(sums.o, sums.fromChunk)
		return
	}
	vector.WeightedSum(sums.fromState, x, state, n)
	for i, v := range sums.fromState {
		sums.o[i] = float32(whole*v) + sums.fromChunk[i]
	}
}

func addDelta(into, state []float32, whole float32, keys, errors, since []float32) {
	n := len(errors) / chunkTokens
	var weights [chunkTokens]float32
	for i := 0; len(into) > 0; i++ {
		for j := range weights {
			weights[j] = keys[i*chunkTokens+j] * since[j]
		}
		row := into[:n]
		vector.WeightedSum(row, weights[:], errors, n)
		if state != nil {
			for c := range row {
				row[c] += float32(whole * state[c])
			}
			state = state[n:]
		}
		into = into[n:]
	}
}

// exactDeltaRule is plain Go in float64, rounded to float32 where results are stored.
func exactDeltaRule() deltaRule {
	return deltaRule{scores: scoresExact, mix: mixDeltaExact, add: addDeltaExact}
}

func scoresExact(dst, x, keys []float32) {
	for j := range dst {
		sum := 0.0
		for i, v := range x {
			sum += float64(v) * float64(keys[i*chunkTokens+j])
		}
		dst[j] = float32(sum)
	}
}

func mixDeltaExact(sums deltaSums, state, x []float32, whole float32, errors, scores, since []float32) {
	n := len(sums.o)
	for c := range sums.o {
		sum := 0.0
		for i := 0; i < len(state); i += n {
			sum += float64(x[i/n]) * float64(state[i+c])
		}
		sum *= float64(whole)
		for j, s := range scores {
			sum += float64(s) * float64(since[j]) * float64(errors[j*n+c])
		}
		sums.o[c] = float32(sum)
	}
}

func addDeltaExact(into, state []float32, whole float32, keys, errors, since []float32) {
	n := len(errors) / chunkTokens
	for i := range into {
		sum := 0.0
		if state != nil {
			sum = float64(whole) * float64(state[i])
		}
		for j, s := range since {
			sum += float64(s) * float64(keys[i/n*chunkTokens+j]) * float64(errors[j*n+i%n])
		}
		into[i] = float32(sum)
	}
}
