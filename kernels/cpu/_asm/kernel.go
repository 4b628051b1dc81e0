package main

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel is a microkernel that is being written: its instructions so far, and the registers that are free.
type Kernel struct {
	Set    Set // of amd64; nil on arm64, see arm
	Name   string
	Args   string // the Go struct that it gets a pointer to
	Format Format // of the weights, where they are read as they are stored
	Scheme Scheme // of the integers that are multiplied

	text           strings.Builder
	tables         *Tables
	taken          [32]bool // vector registers in use
	constants      []*constant
	masks          int // in use by constants
	inPhase        bool
	frame, aligned int // bytes of the stack in use
	slots          []string
	prefetching    *prefetcher
	labels         map[string]int
	magnitudes     map[Vec]Vec // of signed weights
	withSign       bool        // weights are unpacked less their offset, with a sign
	highAsTheyLie  bool        // high nibbles stay where they are: sixteen times as much
}

// Reg is a general register or a mask.
type Reg string

// Registers of amd64.
const (
	AX, BX, CX, DX, SI, DI, BP, SP Reg = "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP"
	R8, R9, R10, R11, R12          Reg = "R8", "R9", "R10", "R11", "R12"
	R13, R14, R15                  Reg = "R13", "R14", "R15"
)

// Vec is a vector register, or its lower part.
type Vec struct {
	number int
	letter string // X, Y or Z: 16, 32 or 64 bytes
}

// String is the register as the assembler calls it.
func (v Vec) String() string { return fmt.Sprint(v.letter, v.number) }

// X is the lower 16 bytes of v, Y the lower 32.
func (v Vec) X() Vec { return Vec{v.number, "X"} }
func (v Vec) Y() Vec { return Vec{v.number, "Y"} }

// like is as much of v as w has.
func (v Vec) like(w Vec) Vec { return Vec{v.number, w.letter} }

// Mem is an address: Symbol or Offset, plus Base, plus Index times Scale.
type Mem struct {
	Symbol      string
	Offset      int
	Base, Index Reg
	Scale       int
}

// At is the address in a register.
func At(base Reg) Mem { return Mem{Base: base} }

// Plus is n bytes further on.
func (m Mem) Plus(n int) Mem { m.Offset += n; return m }

// Times is scale times the index further on.
func (m Mem) Times(index Reg, scale int) Mem { m.Index, m.Scale = index, scale; return m }

// String is the address as the assembler writes it.
func (m Mem) String() string {
	s := m.Symbol
	switch {
	case m.Symbol != "" && m.Offset != 0:
		s += fmt.Sprintf("+%d", m.Offset)
	case m.Offset != 0:
		s = fmt.Sprint(m.Offset)
	}
	s += fmt.Sprintf("(%s)", m.Base)
	if m.Index != "" {
		s += fmt.Sprintf("(%s*%d)", m.Index, m.Scale)
	}
	return s
}

// Op writes an instruction; numbers are immediates. The destination is the last operand, as in Go's assembly.
func (k *Kernel) Op(name string, operands ...any) {
	words := make([]string, len(operands))
	for i, o := range operands {
		words[i] = fmt.Sprint(o)
		if n, ok := o.(int); ok {
			words[i] = fmt.Sprintf("$%d", n)
		}
	}
	if k.Set != nil {
		name = k.Set.Spell(name)
	}
	fmt.Fprintf(&k.text, "\t%s %s\n", name, strings.Join(words, ", "))
}

// Comment writes a line for the reader of the assembly.
func (k *Kernel) Comment(format string, args ...any) {
	fmt.Fprintf(&k.text, "\t// "+format+"\n", args...)
}

// Label is a name for a place, of which there is none yet.
func (k *Kernel) Label(name string) string {
	k.labels[name]++
	if n := k.labels[name]; n > 1 {
		return fmt.Sprint(name, n)
	}
	return name
}

// Place says that a label is here.
func (k *Kernel) Place(label string) { fmt.Fprintf(&k.text, "%s:\n", label) }

// Here is a label for this place.
func (k *Kernel) Here(name string) string {
	label := k.Label(name)
	k.Place(label)
	return label
}

// Vec takes a free vector register.
func (k *Kernel) Vec() Vec { return k.firstFree(0, 1) }

// lastVec is Vec for constants: from the end, as AVX-512 alone has instructions for registers from 16 on.
func (k *Kernel) lastVec() Vec {
	_, count := k.Set.Vectors()
	return k.firstFree(count-1, -1)
}

// firstFree takes the first free vector register, tried in steps from one on.
func (k *Kernel) firstFree(from, step int) Vec {
	letter, count := k.Set.Vectors()
	for i := from; 0 <= i && i < count; i += step {
		if !k.taken[i] {
			k.taken[i] = true
			return Vec{i, letter}
		}
	}
	panic(k.Name + ": no vector register is free")
}

// Vecs takes n of them.
func (k *Kernel) Vecs(n int) []Vec {
	v := make([]Vec, n)
	for i := range v {
		v[i] = k.Vec()
	}
	return v
}

// Free gives vector registers back.
func (k *Kernel) Free(vs ...Vec) {
	for _, v := range vs {
		k.taken[v.number] = false
	}
}

// ToArgs makes r the pointer to the arguments.
func (k *Kernel) ToArgs(r Reg) { k.Op("MOVQ", Mem{Symbol: "a+0", Base: "FP"}, r) }

// Load sets registers to fields of the arguments, to which r points: pairs of a field's name and a register.
func (k *Kernel) Load(r Reg, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		k.Op("MOVQ", k.Field(r, pairs[i].(string)), pairs[i+1])
	}
}

// Field is a field of the arguments, to which r points.
func (k *Kernel) Field(r Reg, name string) Mem { return Mem{Symbol: k.Args + "_" + name, Base: r} }

// Local is some bytes of the stack.
func (k *Kernel) Local(bytes int) Mem {
	k.frame += bytes
	return At(SP).Plus(k.frame - bytes)
}

// Slot is eight bytes of the stack with a name. Microkernels are written twice: the second time their frame begins with
// the slots that the first one asked for.
func (k *Kernel) Slot(name string) Mem {
	i := slices.Index(k.slots, name)
	if i < 0 {
		i = len(k.slots)
		k.slots = append(k.slots, name)
	}
	return At(SP).Plus(8 * i)
}

// Aligned is some bytes of the stack at a multiple of a register's width, by a register that AlignStack sets.
func (k *Kernel) Aligned(stack Reg, bytes int) Mem {
	k.aligned += bytes
	return At(stack).Plus(k.aligned - bytes)
}

// AlignStack sets the register; no Local follows.
func (k *Kernel) AlignStack(stack Reg) {
	width := k.Set.Width()
	k.Op("LEAQ", At(SP).Plus(k.frame+width-1), stack)
	k.Op("ANDQ", -width, stack)
	k.frame += k.aligned + width
}

// Return ends the microkernel.
func (k *Kernel) Return() {
	k.Op("VZEROUPPER")
	k.Op("RET")
}

// String is the microkernel as assembly.
func (k *Kernel) String() string {
	flags := "NOSPLIT"
	if k.frame > 256 {
		flags = "0"
	}
	head := fmt.Sprintf("// func %s(a *%s)\nTEXT ·%[1]s(SB), %[3]s, $%d-8\n", k.Name, k.Args, flags, k.frame)
	return head + k.text.String()
}
