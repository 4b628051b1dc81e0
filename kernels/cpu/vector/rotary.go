package vector

// ropePad is the number of elements of half a head of which the assembly takes a multiple; plain Go computes the
// others.
const ropePad = 8

// Rope rotates heads in place: in each head it rotates the pair (x[i], x[i+Dh/2]) by the angle with the cosine cos[i]
// and the sine sin[i]. x is [heads, Dh], cos and sin are [Dh/2].
func Rope(x, cos, sin []float32) {
	half := len(cos)
	sin = sin[:half]
	switch {
	case half == 0 || len(x)%(2*half) != 0:
		panic("vector: Rope of a part of a head")
	case len(x) == 0:
	case half%ropePad != 0:
		ropeGeneric(x, cos, sin)
	default:
		inUse().rope(x, cos, sin)
	}
}

func ropeGeneric(x, cos, sin []float32) {
	for half := len(cos); len(x) > 0; x = x[2*half:] {
		a, b := x[:half], x[half:2*half]
		for i := range a {
			u, v := a[i], b[i]
			a[i] = float32(u*cos[i]) - float32(v*sin[i])
			b[i] = float32(v*cos[i]) + float32(u*sin[i])
		}
	}
}
