package main

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// constant is a register with a constant value from the beginning of a microkernel, or of a phase, to its end.
type constant struct {
	key     string
	reg     Vec
	mask    Reg
	set     func(k *Kernel, c *constant)
	inPhase bool
}

// useConstant returns the constant with the key. If there is none yet, it is set at this place: that is correct in a
// phase, which is straight-line code. For a constant of the whole microkernel it would be too late within a loop. So
// microkernels are written twice: the second time they begin with all constants that the first one used.
func (k *Kernel) useConstant(key string, isMask bool, set func(k *Kernel, c *constant)) *constant {
	for _, c := range k.constants {
		if c.key == key {
			return c
		}
	}
	c := &constant{key: key, set: set, inPhase: k.inPhase && !isMask}
	k.allocateConstant(c, isMask)
	return c
}

func (k *Kernel) allocateConstant(c *constant, isMask bool) {
	if isMask {
		k.masks++
		c.mask = Reg(fmt.Sprint("K", k.masks))
	} else {
		c.reg = k.lastVec()
	}
	k.constants = append(k.constants, c)
	c.set(k, c)
}

// Phase writes straight-line code within a loop. Its constants occupy registers only there: they are loaded again in
// each iteration.
func (k *Kernel) Phase(write func()) {
	k.inPhase = true
	write()
	k.inPhase = false
	kept := k.constants[:0]
	for _, c := range k.constants {
		if c.inPhase {
			k.Free(c.reg)
			continue
		}
		kept = append(kept, c)
	}
	k.constants = kept
}

// Broadcast returns a constant: n in each 32 bits.
func (k *Kernel) Broadcast(n int) Vec {
	return k.useConstant(fmt.Sprint("broadcast", n), false, func(k *Kernel, c *constant) {
		k.Op("VPBROADCASTD", k.Table(fmt.Sprintf("each%x", n), 4, repeatValues(2, n)), c.reg)
	}).reg
}

// Bytes and Words return constants of equal numbers.
func (k *Kernel) Bytes(n int) Vec { return k.Broadcast(eachByte(n)) }
func (k *Kernel) Words(n int) Vec { return k.Broadcast(eachWord(n)) }

// Lookup returns a constant from memory, with as many numbers as a register holds, or with 16 bytes that are repeated.
func (k *Kernel) Lookup(name string, size int, values []int) Vec {
	return k.useConstant(name, false, func(k *Kernel, c *constant) {
		op := "VMOVDQU"
		if len(values)*size == 16 {
			op = "VBROADCASTI128"
		}
		k.Op(op, k.Table(name, size, values), c.reg)
	}).reg
}

// Mask returns a constant that selects the parts, of 8, 16, 32 or 64, to which an AVX-512 instruction applies.
func (k *Kernel) Mask(n int) Reg {
	return k.useConstant(fmt.Sprint("mask", n), true, func(k *Kernel, c *constant) {
		k.Op("MOVL", n, AX)
		k.Op("KMOVD", AX, c.mask)
	}).mask
}

// InMemory returns the address of equal bytes as wide as a register, for constants that are rarely used.
func (k *Kernel) InMemory(byte int) Mem {
	return k.Table(fmt.Sprintf("bytes%x", byte), 1, repeatValues(k.Set.Width(), byte))
}

// Tables are the constants of a file.
type Tables struct {
	text strings.Builder
	seen map[string]bool
}

// Table returns the address of constants, which are written to the file once. Each is size bytes.
func (k *Kernel) Table(name string, size int, values []int) Mem {
	t := k.tables
	if !t.seen[name] {
		t.seen[name] = true
		for i := 0; i < len(values); i += 8 / size {
			fmt.Fprintf(&t.text, "DATA %s<>+%d(SB)/8, $0x", name, i*size)
			for j := 8/size - 1; j >= 0; j-- {
				fmt.Fprintf(&t.text, "%0*x", 2*size, values[i+j]&(1<<(8*size)-1))
			}
			t.text.WriteString("\n")
		}
		fmt.Fprintf(&t.text, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n\n", name, size*len(values))
	}
	return Mem{Symbol: name + "<>", Base: "SB"}
}

func repeatValues(n int, values ...int) []int { return slices.Repeat(values, n) }

// spreadBytes returns the table for VPSHUFB that expands n of 16 bytes, step bytes apart, to unsigned 32-bit numbers.
func spreadBytes(first, step int) (all []int) {
	for i := range 4 {
		all = append(all, first+i*step, 0x80, 0x80, 0x80)
	}
	return all
}

func eachWord(n int) int { return n&0xffff<<16 | n&0xffff }

func eachByte(n int) int { return eachWord(n&0xff<<8 | n&0xff) }

func log2(n int) int { return bits.TrailingZeros(uint(n)) }
