package main

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel is a microkernel in the making: its instructions so far, and the free registers.
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

// String returns the register in the assembler's notation.
func (v Vec) String() string { return fmt.Sprint(v.letter, v.number) }

// X is the lower 16 bytes of v, Y the lower 32.
func (v Vec) X() Vec { return Vec{v.number, "X"} }
func (v Vec) Y() Vec { return Vec{v.number, "Y"} }

func (v Vec) withWidthOf(w Vec) Vec { return Vec{v.number, w.letter} }

// Mem is an address: Symbol or Offset, plus Base, plus Index times Scale.
type Mem struct {
	Symbol      string
	Offset      int
	Base, Index Reg
	Scale       int
}

// At returns the address in a register.
func At(base Reg) Mem { return Mem{Base: base} }

// Plus returns the address n bytes further on.
func (m Mem) Plus(n int) Mem { m.Offset += n; return m }

// Times returns the address plus scale times the index.
func (m Mem) Times(index Reg, scale int) Mem { m.Index, m.Scale = index, scale; return m }

// String returns the address in the assembler's notation.
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

// Comment writes a comment line.
func (k *Kernel) Comment(format string, args ...any) {
	fmt.Fprintf(&k.text, "\t// "+format+"\n", args...)
}

// Label returns a new label, which is not placed yet.
func (k *Kernel) Label(name string) string {
	k.labels[name]++
	if n := k.labels[name]; n > 1 {
		return fmt.Sprint(name, n)
	}
	return name
}

// Place places a label here.
func (k *Kernel) Place(label string) { fmt.Fprintf(&k.text, "%s:\n", label) }

// Here returns a label for this place.
func (k *Kernel) Here(name string) string {
	label := k.Label(name)
	k.Place(label)
	return label
}

// Vec allocates a free vector register.
func (k *Kernel) Vec() Vec { return k.allocateFirstFree(0, 1) }

// lastVec is Vec for constants: it allocates from the end, because only AVX-512 has instructions for registers from 16
// on.
func (k *Kernel) lastVec() Vec {
	_, count := k.Set.Vectors()
	return k.allocateFirstFree(count-1, -1)
}

func (k *Kernel) allocateFirstFree(from, step int) Vec {
	letter, count := k.Set.Vectors()
	for i := from; 0 <= i && i < count; i += step {
		if !k.taken[i] {
			k.taken[i] = true
			return Vec{i, letter}
		}
	}
	panic(k.Name + ": no vector register is free")
}

// Vecs allocates n vector registers.
func (k *Kernel) Vecs(n int) []Vec {
	v := make([]Vec, n)
	for i := range v {
		v[i] = k.Vec()
	}
	return v
}

// Free frees vector registers.
func (k *Kernel) Free(vs ...Vec) {
	for _, v := range vs {
		k.taken[v.number] = false
	}
}

// ToArgs loads the pointer to the arguments into r.
func (k *Kernel) ToArgs(r Reg) { k.Op("MOVQ", Mem{Symbol: "a+0", Base: "FP"}, r) }

// Load sets registers to fields of the arguments, to which r points: pairs of a field's name and a register.
func (k *Kernel) Load(r Reg, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		k.Op("MOVQ", k.Field(r, pairs[i].(string)), pairs[i+1])
	}
}

// Field returns the address of a field of the arguments, to which r points.
func (k *Kernel) Field(r Reg, name string) Mem { return Mem{Symbol: k.Args + "_" + name, Base: r} }

// Local allocates some bytes of the stack.
func (k *Kernel) Local(bytes int) Mem {
	k.frame += bytes
	return At(SP).Plus(k.frame - bytes)
}

// Slot returns eight bytes of the stack with a name. Microkernels are written twice: the second time their frame begins
// with the slots that the first one used.
func (k *Kernel) Slot(name string) Mem {
	i := slices.Index(k.slots, name)
	if i < 0 {
		i = len(k.slots)
		k.slots = append(k.slots, name)
	}
	return At(SP).Plus(8 * i)
}

// Aligned allocates some bytes of the stack at a multiple of a register's width, relative to a register that AlignStack
// sets.
func (k *Kernel) Aligned(stack Reg, bytes int) Mem {
	k.aligned += bytes
	return At(stack).Plus(k.aligned - bytes)
}

// AlignStack sets the register. Local must not be called afterwards.
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

// String returns the microkernel as assembly.
func (k *Kernel) String() string {
	flags := "NOSPLIT"
	if k.frame > 256 {
		flags = "0"
	}
	head := fmt.Sprintf("// func %s(a *%s)\nTEXT ·%[1]s(SB), %[3]s, $%d-8\n", k.Name, k.Args, flags, k.frame)
	return head + k.text.String()
}
