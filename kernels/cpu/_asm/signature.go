package main

import (
	"fmt"
	"strings"
)

// signature is a kind of function in the tables of the package cpu, and how its parameters become a struct of
// arguments: field and value, where OUTPUTS is the rows of a panel.
type signature struct {
	args, parameters, fields string
}

var (
	gemvSignature = signature{
		"gemmArgs", "dst []float32, w []byte, x activations",
		"dst: dst*, w: w*, wBytes: len(w), q: x.q*, d: x.d*, s: x.s*, h: x.h*, n: actBlock * len(x.d)",
	}
	gemmSignature = signature{
		"gemmArgs", "dst []float32, stride int, w []byte, x activations, tokens, n int",
		"dst: dst*, stride: stride, w: w*, wBytes: len(w), q: x.q*, d: x.d*, s: x.s*, h: x.h*, tokens: tokens, n: n",
	}
	packSignature = signature{
		"packArgs", "w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte",
		"w: w*, columns: len(w) / OUTPUTS, ds: ds*, mins: mins*, src: src*, stride: stride, " +
			"prefetch: prefetch*, prefetchBytes: len(prefetch)",
	}
	tileSignature = signature{
		"tileArgs",
		"acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte",
		"acc: acc*, accBytes: 4 * len(acc), w: w*, wBytes: len(w), ds: ds*, dsBytes: 4 * len(ds), mins: mins*, " +
			"minsBytes: 4 * len(mins), q: x.q*, d: x.d*, s: x.s*, h: x.h*, tokens: tokens, n: n, " +
			"prefetch: prefetch*, prefetchBytes: len(prefetch)",
	}
)

// pointer is the end of a value that is the beginning of a slice.
const pointer = "*"

// adapter is a function with the parameters that calls the microkernel.
func (s signature) adapter(name string, outputs int) string {
	fields := strings.Split(strings.ReplaceAll(s.fields, "OUTPUTS", fmt.Sprint(outputs)), ", ")
	for i, f := range fields {
		if field, value, _ := strings.Cut(f, ": "); strings.HasSuffix(value, pointer) {
			fields[i] = fmt.Sprintf("%s: unsafe.SliceData(%s)", field, strings.TrimSuffix(value, pointer))
		}
	}
	all := strings.Join(fields, ",\n")
	return fmt.Sprintf("func %s(\n%s,\n) {\n\t%[1]sArgs(&%[3]s{\n%s,\n})\n}\n", name, s.parameters, s.args, all)
}
