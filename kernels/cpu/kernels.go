package cpu

import (
	"sync"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

// kernels is one variant's leaves: what may be assembly. Operations check shapes and cut the work before they call a leaf, so a
// leaf may assume lengths that fit and at least one element. Each has its twin in generic.go, where its formula stands.
type kernels struct {
	name   string
	rows   [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
	groups [formats][]group
	spread func(to, q []int8, from int) // sets P of a row ([Acts]) from Q of whole blocks, the from-th and following; nil if groups take Q

	// Several rows of activations meet a panel of wide rows of weights, by tile and fold. pack takes that apart, from rows that begin stride
	// bytes apart, into weights as signed bytes, scales and minima, as packGeneric does, or in an order that suits tile better; of two
	// scales of a block that are equal it need set only the first. What pack and tile get as ahead they fetch into the cache.
	wide     int
	tile     [formats]tileLeaf
	fewTile  [formats]tileLeaf // takes the place of tile for fewer rows of activations than tileRows
	tileRows int
	twoTiles [formats]tileLeaf // of two panels that lie behind each other, as do their sums; nil if nothing is gained
	pack     [formats]func(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)
	fold     func(out, acc []float32)
	settle   func(dst []float32, stride int, acc []float32, rows int, add bool) // fold to rows of dst, or added to them, leaving zeros; may be nil

	rowsF32  floatRows
	rowsF16  floatRows
	rowsBF16 floatRows
	fourF32  func(dst *[4]float32, w []byte, x []float32)

	// Four rows of weights with four of activations, for a multiple of 16 columns. Nil: one row of weights at a time by fourF32,
	// turned to float32 first.
	gridF32  floatGrid
	gridF16  floatGrid
	gridBF16 floatGrid

	// Eight rows with grid8Rows, likewise, or nil.
	grid8Rows int
	grid8F32  floatGrid8
	grid8F16  floatGrid8
	grid8BF16 floatGrid8
	waitBytes int // of float weights that wait in a second-level cache while some rows of activations after the others meet them

	fromF16  func(dst []float32, src []byte)
	fromBF16 func(dst []float32, src []byte)
	round    func(q []int8, d, s []float32, h []int16, x []float32)
	read     func(p []byte) uint64

	peakBytes, peakFloats peak
}

// group is a leaf that takes some rows of weights at a time, four (a quad) or eight (an oct), to a few rows of activations: least to most.
type group struct {
	leaf              groupLeaf
	rows, least, most int
}

// form is rows of activations, rounded, as in [Acts].
type form struct {
	q    []int8 // Q, or P if the variant has spread
	d, s []float32
	h    []int16
}

// groupLeaf is rows for a multiple of [group].rows rows of a multiple of four blocks, and rows rows of n activations that lie behind each
// other, with the bits of rows: dst[t·stride+r].
type groupLeaf func(dst []float32, stride int, w []byte, x form, rows, n int)

// tileOf returns what multiplies a panel in format f with so many rows of activations.
func (k *kernels) tileOf(f format, rows int) tileLeaf {
	if rows < k.tileRows {
		return k.fewTile[f]
	}
	return k.tile[f]
}

// groupOf returns the group that takes t rows of n activations to weights in format f, or nil.
func (k *kernels) groupOf(f format, t, n int) *group {
	if f < 0 || n%(4*actBlock) != 0 {
		return nil
	}
	for i := range k.groups[f] {
		if g := &k.groups[f][i]; g.least <= t && t <= g.most {
			return g
		}
	}
	return nil
}

// tileLeaf adds to acc the products of a panel of weights with some rows of n activations, up to [together]: see tileGeneric.
type tileLeaf func(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

// floatRows sets dst[r] = Σᵢ w[r,i]·x[i] for len(dst) rows of w that begin stride bytes apart.
type floatRows func(dst []float32, w []byte, stride int, x []float32)

// floatGrid sets dst[4t+r] = Σᵢ w[r,i]·x[t,i] for four rows each of w and x, which lie behind each other.
type floatGrid func(dst *[16]float32, w []byte, x []float32)

// floatGrid8 sets dst[t·stride+r] = Σᵢ w[r,i]·x[t,i] for eight rows of w and the rows of x, or adds it. Meanwhile it fetches as much memory as
// the rows of w take, which begins ahead bytes after they do.
type floatGrid8 func(dst []float32, stride int, w []byte, x []float32, ahead int, add bool)

// Env is the environment variable that names the instruction set to use in place of the best one: "generic", "avx2", …
const Env = isa.Env

// of returns the table of an instruction set.
func of(set string) *kernels {
	k := functions(set)
	k.name = set
	return k
}

// offered returns the names of the instruction sets that this CPU offers, plain Go first, the best one last.
var offered = sync.OnceValue(isa.Offered)

// variants returns the tables of what this CPU offers, in the same order.
func variants() []*kernels {
	var all []*kernels
	for _, set := range offered() {
		if k := of(set); right(k) {
			all = append(all, k)
		}
	}
	return all
}

// chosen is the table in use, decided once.
var chosen = sync.OnceValues(func() (*kernels, error) {
	set, err := isa.Choose(Variants())
	return of(set), err
})

// kernelsInUse returns the table in use. With a name in [Env] that [Detect] refuses it is the generic one.
func kernelsInUse() *kernels {
	k, _ := chosen()
	return k
}

// Detect returns the name of the instruction set in use, such as "avx2", and an error if [Env] asks for one that this CPU
// or build does not have. A program calls it once at start; the operations do not report the error and run in plain Go
// then.
func Detect() (string, error) {
	k, err := chosen()
	return k.name, err
}

// Features returns the name of the instruction set in use, for reports.
func Features() string { return kernelsInUse().name }

// Variants returns the names of all instruction sets that this CPU and build offer, plain Go first, the best one last.
func Variants() []string {
	var names []string
	for _, k := range variants() {
		names = append(names, k.name)
	}
	return names
}
