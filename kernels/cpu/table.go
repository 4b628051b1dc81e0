package cpu

import (
	_ "embed"
	"path"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

// Microkernel is a line of the table of matrix products: the function that computes a product with a weight of some
// type, for some numbers of tokens, with some instruction set. If a function takes several tokens or outputs at a time,
// the remaining ones are computed by the functions for fewer; for packed weights, by those for few tokens with packed
// weights.
type Microkernel struct {
	Set      string     // instruction set, a name as in [Variants]
	Type     block.Type // of the weight
	From, To int        // range of tokens, both included; To is 0 if there is no end
	Kernel   string     // function
	Pack     string     // function that packs or converts the weights; "" if they are read as they are stored
}

// tableRows and tableCols are the shape of the weight in the table: FFN-down of Qwen2.5-0.5B.
const tableRows, tableCols = 896, 4864

// maxTokens is the end of the table: with more tokens the same functions are called more often.
const maxTokens = 64

// Microkernels returns the table of this architecture and build, for all instruction sets, including those that this
// CPU lacks. It is sorted from the plainest to the best, then by type and number of tokens.
func Microkernels() (table []Microkernel) {
	for _, set := range isa.All() {
		k := newKernels(set)
		for _, w := range block.Types() {
			first := len(table)
			for t := 1; t <= maxTokens; t++ {
				m := k.microkernelFor(w, t)
				if len(table) > first && m.Kernel == table[len(table)-1].Kernel && m.Pack == table[len(table)-1].Pack {
					table[len(table)-1].To = t
				} else {
					table = append(table, m)
				}
			}
			table[len(table)-1].To = 0
		}
	}
	return table
}

func (k *kernels) microkernelFor(w block.Type, t int) Microkernel {
	m := Microkernel{Set: k.name, Type: w, From: t, To: t}
	f := formatOf(w)
	switch k.chooseAlgorithm(w, tableRows, tableCols, t) {
	case bySmallGEMM:
		m.Kernel = functionName(k.smallGEMMOf(f, t, tableCols).multiply)
	case byGEMV:
		m.Kernel = functionName(k.gemv[f])
	case byPackedGEMM:
		m.Kernel, m.Pack = functionName(k.tileOf(f, min(t, tileTokens))), functionName(k.pack[f])
		if t > tileTokens && k.twoPanels[f] != nil {
			m.Kernel = functionName(k.twoPanels[f])
		}
	case byFloatGEMV:
		m.Kernel = functionName(k.gemvOf(w))
	case byFloatGEMM:
		m.Kernel, m.Pack = k.floatKernel(w, t)
	}
	return m
}

// floatKernel returns the widest function that floatGEMM uses for t tokens, and the function that converts the weights
// to float32.
func (k *kernels) floatKernel(w block.Type, t int) (kernel, pack string) {
	four, eight := k.gemmOf(w)
	if w != block.F32 && four == nil {
		four, eight = k.gemmOf(block.F32)
		pack = dequantize
		w = block.F32
	}
	if t == 1 {
		return functionName(k.gemvOf(w)), pack
	}
	for left := t; eight != nil && left > 0; left -= 4 {
		if k.gemm8Takes(left) {
			return functionName(eight), pack
		}
	}
	return functionName(four), pack
}

// dequantize is the name of [block.Type.Dequantize].
const dequantize = "Dequantize"

// functionName returns the name of a function of this package. A closure has the name of the function that makes it.
func functionName(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	name = name[strings.LastIndexByte(name, '/')+1:]
	_, name, _ = strings.Cut(name, ".")
	name, _, _ = strings.Cut(name, ".")
	return name
}

//go:embed files.txt
var filesText string

// files maps the names of functions to the files of this package that they are in.
var files = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(filesText) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[name] = file
	}
	return m
})

// Files returns the files of Kernel and Pack, as paths in the module; "" if there is no Pack.
func (m Microkernel) Files() (kernel, pack string) {
	if m.Pack != "" {
		pack = functionFile(m.Pack)
	}
	return functionFile(m.Kernel), pack
}

func functionFile(function string) string {
	if function == dequantize {
		return "gguf/block/dequantize.go"
	}
	return path.Join("kernels/cpu", files()[function])
}
