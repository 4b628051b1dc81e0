package reference

import "math"

// Run is the evaluation of a text.
type Run struct {
	m      *Model
	pos    int // tokens before the next one
	states []State
}

// State is what a layer keeps of a text: the keys and values of a layer of full attention, or the inputs and memories
// of one of linear attention.
type State struct {
	Keys   [][]float64   // [tokens][Hkv·Dh], rotated
	Values [][]float64   // [tokens][Hkv·Dh]
	Inputs [][]float64   // [taps-1][C], of the convolution: q, k and v of the last tokens, oldest first, or zeros
	Memory [][][]float64 // [Hv][S][Sv], by head of v, element of the key and element of the value
}

// Begin begins a text.
func (m *Model) Begin() *Run {
	r := &Run{m: m, states: make([]State, len(m.layers))}
	for i, l := range m.layers {
		if l.linear == nil {
			continue
		}
		r.states[i].Inputs = newMatrix(m.kernel-1, len(l.linear.qkv))
		for range m.valueHeads {
			r.states[i].Memory = append(r.states[i].Memory, newMatrix(m.keySize, m.valueSize))
		}
	}
	return r
}

// Logits returns the logits [tokens][Vocab] after each token of a text.
func (m *Model) Logits(ids []int32) [][]float64 {
	r := m.Begin()
	var all [][]float64
	for _, id := range ids {
		all = append(all, r.Next(id))
	}
	return all
}

// State returns the state of a layer. The next token changes it.
func (r *Run) State(layer int) State { return r.states[layer] }

// Next appends a token of the vocabulary to the text and returns the logits after it, [Vocab].
func (r *Run) Next(id int32) []float64 {
	m := r.m
	x := m.embedding[id]
	for i, l := range m.layers {
		h, s := rms(x, l.attnNorm, m.epsilon), &r.states[i]
		if l.full != nil {
			x = add(x, r.attend(l.full, s, h))
		} else {
			x = add(x, r.attendLinear(l.linear, s, h))
		}
		h = rms(x, l.ffnNorm, m.epsilon)
		gate, up := l.gate.mul(h), l.up.mul(h)
		for j := range up {
			up[j] *= silu(gate[j])
		}
		x = add(x, l.down.mul(up))
	}
	r.pos++
	return m.output.mul(rms(x, m.norm, m.epsilon))
}

// attend is full attention: Wo (softmax(q·k/√Dh) v ⊙ sigmoid(gate)), with norms and partial rotation of q and k.
func (r *Run) attend(w *full, s *State, x []float64) []float64 {
	m, size := r.m, r.m.headSize
	queries, keys := w.wq.mul(x), w.wk.mul(x)
	for g := range m.kvHeads {
		k := keys[g*size : (g+1)*size]
		copy(k, r.rotate(rms(k, w.kNorm, m.epsilon)))
	}
	s.Keys, s.Values = append(s.Keys, keys), append(s.Values, w.wv.mul(x))
	var mixed []float64
	for h := range m.heads {
		q, gate := queries[2*h*size:(2*h+1)*size], queries[(2*h+1)*size:(2*h+2)*size]
		q = r.rotate(rms(q, w.qNorm, m.epsilon))
		from := h / (m.heads / m.kvHeads) * size // of the head's group in keys and values
		weights, sum := make([]float64, len(s.Keys)), 0.0
		for t, k := range s.Keys {
			weights[t] = math.Exp(dot(q, k[from:from+size]) / math.Sqrt(float64(size)))
			sum += weights[t]
		}
		out := make([]float64, size)
		for t, v := range s.Values {
			for i := range out {
				out[i] += weights[t] / sum * v[from+i] * sigmoid(gate[i])
			}
		}
		mixed = append(mixed, out...)
	}
	return w.wo.mul(mixed)
}

// rotate turns the pairs (i, i+R/2) of the first R elements of a head by pos·base^(-2i/R).
func (r *Run) rotate(x []float64) []float64 {
	half := r.m.rotated / 2
	for i := range half {
		sin, cos := math.Sincos(float64(r.pos) * math.Pow(r.m.base, -float64(i)/float64(half)))
		x[i], x[half+i] = x[i]*cos-x[half+i]*sin, x[half+i]*cos+x[i]*sin
	}
	return x
}

// attendLinear is linear attention. Head h of v reads the keys and queries of head h mod Hk:
//
//	q, k, v = silu(conv(Wqkv x)), then q = q/|q|/√S, k = k/|k|
//	α = exp(a·softplus(Wα x + dt)), β = sigmoid(Wβ x)
//	M = α M + k βᵀ(v - α Mᵀk), o = Mᵀ q
//	result = Wo (rms(o) ⊙ g ⊙ silu(Wz x))
func (r *Run) attendLinear(w *linear, s *State, x []float64) []float64 {
	m := r.m
	mixed := convolve(w, s, w.qkv.mul(x))
	keys := m.keyHeads * m.keySize
	z, alpha, beta := w.z.mul(x), w.alpha.mul(x), w.beta.mul(x)
	var result []float64
	for h := range m.valueHeads {
		from := h % m.keyHeads * m.keySize
		q := unit(mixed[from:from+m.keySize], m.epsilon)
		k := unit(mixed[keys+from:keys+from+m.keySize], m.epsilon)
		v := mixed[2*keys+h*m.valueSize : 2*keys+(h+1)*m.valueSize]
		decay := math.Exp(w.a[h] * softplus(alpha[h]+w.dt[h]))
		out := make([]float64, m.valueSize)
		for j := range out { // one column of the memory each
			recalled := 0.0
			for i := range k {
				s.Memory[h][i][j] *= decay
				recalled += s.Memory[h][i][j] * k[i]
			}
			for i := range k {
				s.Memory[h][i][j] += k[i] * sigmoid(beta[h]) * (v[j] - recalled)
				out[j] += s.Memory[h][i][j] * q[i] / math.Sqrt(float64(m.keySize))
			}
		}
		for j, o := range rms(out, w.norm, m.epsilon) {
			result = append(result, o*silu(z[h*m.valueSize+j]))
		}
	}
	return w.out.mul(result)
}

// convolve returns silu(Σ over taps of conv ⊙ input) of each channel, and keeps the input for the next tokens.
func convolve(w *linear, s *State, input []float64) []float64 {
	window := append(s.Inputs, input)
	out := make([]float64, len(input))
	for c := range out {
		for t, in := range window {
			out[c] += w.conv[c][t] * in[c]
		}
		out[c] = silu(out[c])
	}
	s.Inputs = window[1:]
	return out
}
