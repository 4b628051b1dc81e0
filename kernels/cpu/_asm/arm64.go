package main

import (
	"fmt"
	"strings"
)

// arm is an arm64 microkernel in the making. Each function documents its use of registers: there are enough of them, so
// that none is allocated or freed.
type arm struct {
	*Kernel
	set    armSet
	format armFormat
}

// V is a vector register of arm64: V2.B16 with lanes; F2 for a load, a store or a scalar.
type V int

// String returns the register as a scalar.
func (v V) String() string { return fmt.Sprintf("F%d", int(v)) }

// In returns the register as lanes.
func (v V) In(lanes string) Reg { return Reg(fmt.Sprintf("V%d.%s", int(v), lanes)) }

// Further registers of arm64.
const (
	R0, R1, R2, R3, R4      Reg = "R0", "R1", "R2", "R3", "R4"
	R5, R6, R7              Reg = "R5", "R6", "R7"
	R16, R17, R19, R20, R21 Reg = "R16", "R17", "R19", "R20", "R21"
	R22, R23, R24, R25, R26 Reg = "R22", "R23", "R24", "R25", "R26"
)

func registerRange(n int, v V) (vs []V) {
	for i := range n {
		vs = append(vs, v+V(i))
	}
	return vs
}

// ToArgs loads the pointer to the arguments into r.
func (a *arm) ToArgs(r Reg) { a.Op("MOVD", Mem{Symbol: "a+0", Base: "FP"}, r) }

// Load sets registers to fields of the arguments, to which r points: pairs of a field's name and a register.
func (a *arm) Load(r Reg, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		a.Op("MOVD", a.Field(r, pairs[i].(string)), pairs[i+1])
	}
}

// Word writes an instruction of words_arm64.h, which Go's assembler does not support; its operands are register
// numbers.
func (a *arm) Word(name string, vs ...V) {
	numbers := make([]string, len(vs))
	for i, v := range vs {
		numbers[i] = fmt.Sprint(int(v))
	}
	fmt.Fprintf(&a.text, "\t%s(%s)\n", name, strings.Join(numbers, ", "))
}

// Each writes an instruction of words_arm64.h on a register, in place, for n of them from v on.
func (a *arm) Each(name string, n int, v V) {
	for _, v := range registerRange(n, v) {
		a.Word(name, v, v)
	}
}

// Zero sets n registers from v on to zero.
func (a *arm) Zero(n int, v V) {
	for _, v := range registerRange(n, v) {
		a.Word("ZERO", v)
	}
}

// Lanes writes an instruction on registers as lanes: B16 is 16 bytes, H8 8 words, S4 and D2 4 and 2 of 32 and 64 bits.
func (a *arm) Lanes(lanes, name string, vs ...V) { a.Op(name, a.inLanes(lanes, vs)...) }

// Shift is Lanes with a number before the registers, mostly the number of bits to shift.
func (a *arm) Shift(lanes, name string, n int, vs ...V) {
	a.Op(name, append([]any{n}, a.inLanes(lanes, vs)...)...)
}

func (a *arm) inLanes(lanes string, vs []V) (operands []any) {
	for _, v := range vs {
		operands = append(operands, v.In(lanes))
	}
	return operands
}

// LoadPair loads v and the next register, from m or, with the suffix ".P", from the register in m, which is then
// advanced by the offset in m.
func (a *arm) LoadPair(suffix string, m Mem, v V) { a.Op("FLDPQ"+suffix, m, registerPair(v)) }

// StorePair stores v and the next register.
func (a *arm) StorePair(v V, m Mem) { a.Op("FSTPQ", registerPair(v), m) }

func registerPair(v V) Reg { return Reg(fmt.Sprintf("(%v, %v)", v, v+1)) }

// Constant sets all bytes of v.
func (a *arm) Constant(v V, byte int) { a.Shift("B16", "VMOVI", byte, v) }

// Address sets r to the address of a table.
func (a *arm) Address(table Mem, r Reg) { a.Op("MOVD", Reg("$"+table.String()), r) }

// List returns the operand for registers that one instruction loads.
func (a *arm) List(lanes string, vs ...V) Reg {
	names := make([]string, len(vs))
	for i, v := range vs {
		names[i] = string(v.In(lanes))
	}
	return Reg("[" + strings.Join(names, ", ") + "]")
}

// Advance adds n to registers.
func (a *arm) Advance(n int, rs ...Reg) {
	for _, r := range rs {
		a.Op("ADD", n, r)
	}
}

// HorizontalSum sets lane 0 of v to (v0+v2) + (v1+v3). It uses t.
func (a *arm) HorizontalSum(v, t V) {
	a.Shift("B16", "VEXT", 8, v, v, t)
	a.Word("FADD", t, v, v)
	a.Word("FADDP", v, v)
}

// Prefetch prefetches lines at p, a multiple of 64 bytes, and advances p; it does nothing at the end.
func (a *arm) Prefetch(p, end Reg, bytes int, done string) {
	a.Op("CMP", end, p)
	a.Op("BGE", done)
	for line := 0; line < bytes; line += 64 {
		a.Op("PRFM", At(p).Plus(line), "PLDL1KEEP")
	}
	a.Advance(bytes, p)
}
