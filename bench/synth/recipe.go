package synth

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// Recipe determines the type of each tensor.
type Recipe struct {
	name string
	most gguf.Type // of the matrices without a rule of their own
}

func allRecipes() []Recipe {
	all := []Recipe{{"q4_k_m", gguf.Q4_K}}
	for _, t := range []gguf.Type{
		gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1,
		gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ4_NL, gguf.IQ4_XS,
	} {
		all = append(all, Recipe{strings.ToLower(t.String()), t})
	}
	return all
}

// RecipeNames returns the names that [ParseRecipe] accepts.
func RecipeNames() []string {
	var names []string
	for _, r := range allRecipes() {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// ParseRecipe returns the recipe with a name such as "q8_0" (every matrix has that type; a q4_0 has its embedding in
// Q8_0) or "q4_k_m", which is Q4_K with Q6_K for the embedding and for the value and down projections of half the
// layers, as such files are usually made, and Q5_K for q, k and v of linear attention. A matrix with rows that are not
// a whole number of blocks gets the usual substitute type.
func ParseRecipe(name string) (Recipe, error) {
	for _, r := range allRecipes() {
		if r.name == strings.ToLower(name) {
			return r, nil
		}
	}
	return Recipe{}, fmt.Errorf("type %q: known are %s", name, strings.Join(RecipeNames(), ", "))
}

// String returns the name.
func (r Recipe) String() string { return r.name }

func (r Recipe) tensorType(tensor string, layer, layers, cols int) gguf.Type {
	t := r.most
	embedding := tensor == "token_embd" || tensor == "output"
	switch {
	case r.name == "q4_0" && embedding:
		t = gguf.Q8_0
	case r.name == "q4_k_m" && embedding:
		t = gguf.Q6_K
	case r.name == "q4_k_m" && (strings.HasSuffix(tensor, "attn_v") || strings.HasSuffix(tensor, "ffn_down")):
		if layer < layers/8 || layer >= 7*layers/8 || (layer-layers/8)%3 == 2 {
			t = gguf.Q6_K
		}
	case r.name == "q4_k_m" && strings.HasSuffix(tensor, "attn_qkv"):
		t = gguf.Q5_K
	}
	for {
		if elems, _ := t.Block(); cols%elems == 0 {
			return t
		}
		t = substituteType(t)
	}
}

func substituteType(t gguf.Type) gguf.Type {
	switch t {
	case gguf.Q2_K, gguf.Q3_K:
		return gguf.Q4_0
	case gguf.IQ4_XS:
		return gguf.IQ4_NL
	case gguf.Q4_K:
		return gguf.Q5_0
	case gguf.Q5_K:
		return gguf.Q5_1
	case gguf.Q6_K:
		return gguf.Q8_0
	}
	return gguf.F16
}

func canQuantize(t gguf.Type) bool {
	switch t {
	case gguf.Q2_K, gguf.Q3_K, gguf.Q5_K, gguf.IQ4_NL, gguf.IQ4_XS:
		return false
	}
	return true
}

// randomBlocks returns random blocks for a tensor of a type that package gguf cannot quantize to, with scales for
// weights with a deviation of about that of the tensor.
func randomBlocks(r *rand.Rand, t tensor) []byte {
	elems, size := t.t.Block()
	b := make([]byte, t.elementCount()/int64(elems)*int64(size))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for block := b; len(block) > 0; block = block[size:] {
		d := t.std * (0.5 + r.Float64())
		put := func(at int, scale float64) {
			binary.LittleEndian.PutUint16(block[at:], gguf.F32ToF16(float32(scale)))
		}
		switch t.t { // d is divided by the deviation of the integers that it multiplies; minima cancel their mean
		case gguf.Q2_K: // d·(0..15)·(0..3) - dmin·(0..15)
			put(80, d/17)
			put(82, d/17*1.5)
		case gguf.Q3_K: // d·(-32..31)·(-4..3)
			put(108, d/45)
		case gguf.Q5_K: // d·(0..63)·(0..31) - dmin·(0..63)
			put(0, d/540)
			put(2, d/540*15.5)
		case gguf.IQ4_NL: // d·(-127..113)
			put(0, d/70)
		case gguf.IQ4_XS: // d·(-32..31)·(-127..113)
			put(0, d/1300)
		}
	}
	repeated := t.repeated * t.shape[0] / elems
	for i := range repeated {
		if i%4 != 3 {
			copy(b[(repeated+i)*size:][:size], b[i*size:])
		}
	}
	return b
}
