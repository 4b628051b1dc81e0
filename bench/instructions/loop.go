package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// loop is a loop of a kernel, according to the comments in the assembly.
type loop struct {
	parent       string // the header of the enclosing loop, or empty
	instructions int    // of its own blocks, without those of inner loops
	fmas         int    // of these; a product of matrices counts as 16
	// divisions of integers. A GPU has no instruction for them: each is the high half of a product with the reciprocal
	// of the divisor, which may be computed before the loop, and a few more.
	divisions int
}

// code describes the assembly of one kernel.
type code struct {
	loops     map[string]*loop // by header
	registers int              // of each thread, 32 bits each
	private   int              // bytes of private memory of each thread
}

var (
	functionAt = regexp.MustCompile(`^(\w+):\s+; @\w+`)
	blockAt    = regexp.MustCompile(`^(?:\.L(BB\d+_\d+):|; %bb\.\d+:)`)
	inLoop     = regexp.MustCompile(`; +in Loop: Header=(BB\d+_\d+)`)
	parentLoop = regexp.MustCompile(`; +Parent Loop (BB\d+_\d+)`)
	isHeader   = regexp.MustCompile(`; =>.*Loop Header`)
	// hints are instructions that compute nothing: they control waiting and pairing in the hardware.
	hints = []string{"s_waitcnt", "s_delay_alu", "s_clause", "s_nop"}
)

// matrixFMAs is the number of fma of 32 lanes in a product of two 8 × 8 matrices.
const matrixFMAs = 8 * 8 * 8 / 32

// read finds the loops of each kernel in the output of [translate.Compiler.Assembly].
func read(assembly string) map[string]*code {
	all := map[string]*code{}
	var c *code
	label, header, parent := "", "", ""
	for line := range strings.Lines(assembly) {
		if m := functionAt.FindStringSubmatch(line); m != nil {
			c = &code{loops: map[string]*loop{}}
			all[m[1]] = c
			header = ""
			continue
		}
		if c == nil {
			continue
		}
		if m := blockAt.FindStringSubmatch(line); m != nil {
			label, header, parent = m[1], "", ""
		}
		if m := inLoop.FindStringSubmatch(line); m != nil {
			header = m[1]
		}
		if m := parentLoop.FindStringSubmatch(line); m != nil {
			parent = m[1] // the last one is the innermost
		}
		if isHeader.MatchString(line) {
			header = label
			c.loop(header).parent = parent
		}
		_, _ = fmt.Sscanf(line, "; NumVgprs: %d", &c.registers)
		_, _ = fmt.Sscanf(line, "; ScratchSize: %d", &c.private)
		if header != "" && strings.HasPrefix(line, "\t") {
			c.loop(header).count(strings.Fields(line))
		}
	}
	return all
}

// loop returns the loop with a header. Some blocks of the loop may precede the header.
func (c *code) loop(header string) *loop {
	if c.loops[header] == nil {
		c.loops[header] = &loop{}
	}
	return c.loops[header]
}

// count counts one line of a block. Two instructions that are issued as a pair count as two. An operation of a whole
// simdgroup counts as one, except for a product of matrices.
func (l *loop) count(words []string) {
	if len(words) > 1 && words[0] == ";" {
		switch {
		case words[1] == "simdgroup_multiply":
			l.instructions, l.fmas = l.instructions+matrixFMAs, l.fmas+matrixFMAs
		case words[1] != "simdgroup_barrier" && strings.HasPrefix(words[1], "simd"):
			l.instructions++
		}
		return
	}
	if len(words) == 0 || strings.HasPrefix(words[0], ";") || strings.HasPrefix(words[0], ".") ||
		slices.ContainsFunc(hints, func(h string) bool { return strings.HasPrefix(words[0], h) }) {
		return
	}
	for i, w := range words {
		if i == 0 || words[i-1] == "::" {
			l.instructions++
			if strings.Contains(w, "fma") {
				l.fmas++
			}
			if strings.HasPrefix(w, "v_mul_hi_u32") {
				l.divisions++
			}
		}
	}
}

// busiest returns the header of the loop with the most fma of its own, of several such loops the one with the most
// instructions, and the instructions of its body. Those of inner loops are counted inside times.
func (c *code) busiest(inside int) (header string, instructions int) {
	best := &loop{instructions: -1}
	for h, l := range c.loops {
		if l.fmas > best.fmas || l.fmas == best.fmas && l.instructions > best.instructions {
			best, header = l, h
		}
	}
	for h, l := range c.loops {
		times := 1
		for at := h; at != ""; at = c.loop(at).parent {
			if at == header {
				instructions += times * l.instructions
				break
			}
			times *= inside
		}
	}
	return header, instructions
}

// divides returns the loops that divide integers and multiply, themselves or in a direct inner loop.
func (c *code) divides() (headers []string) {
	for h, l := range c.loops {
		works := l.fmas > 0
		for _, inner := range c.loops {
			works = works || inner.parent == h && inner.fmas > 0
		}
		if works && l.divisions > 0 {
			headers = append(headers, h)
		}
	}
	return headers
}
