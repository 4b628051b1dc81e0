package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// most holds the max number of instructions per weight for 1, 2, 4 and 8 rows of activations: a little more than the
// measured number. For one row it is never more than 6.
var most = map[string][len(rows)]float64{
	"F32": {2.5, 3.6, 5.9, 10.5}, "F16": {3.3, 4.4, 6.7, 11.3}, "BF16": {3.5, 4.7, 7, 11.5},
	"Q8_0": {3.7, 4.9, 8, 13.3}, "Q4_0": {3, 4.2, 7.5, 13.2}, "Q5_0": {5, 6.3, 9.7, 15.4},
	"Q4_K": {4.6, 6.2, 10.8, 18.5}, "Q5_K": {6, 7.9, 12.7, 20.4}, "Q6_K": {5.4, 6.7, 9.6, 15},
}

// compiler returns clang for a GPU, or skips the test without it.
func compiler(t *testing.T) *translate.Compiler {
	t.Helper()
	racing.Spare(t)
	c, err := translate.NewCompiler(translate.Options{})
	if err == nil {
		_, err = c.Assembly("#include <metal_stdlib>\nusing namespace metal;\nkernel void none() {}", "none")
	}
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	return c
}

// TestInstructions: a mat-vec takes max 6 instructions per weight and row of activations for every type, and uses no
// private memory. Its inner loop has an fma for each weight and row and few more instructions, and no integer division
// per element. kernels/README.md has the instructions of each type.
func TestInstructions(t *testing.T) {
	c := compiler(t)
	ops := operations[:]
	if testing.Short() {
		ops = ops[:1]
	}
	for _, weight := range kernels.Types() {
		t.Run(weight, func(t *testing.T) {
			t.Parallel()
			all, _, err := measure(c, weight, ops)
			require.NoError(t, err)
			for _, op := range ops {
				for i, n := range all[op] {
					assert.LessOrEqual(t, n.perWeight, most[weight][i], "%s, %d rows", op, rows[i])
					assert.Zero(t, n.private, "%s, %d rows: bytes of private memory", op, rows[i])
					products := weightsEach(weight, rows[i]) * rows[i]
					assert.GreaterOrEqual(t, n.fmas, products, "%s, %d rows", op, rows[i])
					assert.LessOrEqual(t, n.fmas, products*3/2, "%s, %d rows", op, rows[i])
					if op == "add" {
						assert.Empty(t, n.divides, "%s, %d rows", op, rows[i])
					}
				}
			}
			add := all["add"]
			const line = `(?m)^\| %s \| %.1f \| %.1f \| %.1f \| %.1f \|$`
			said := regexp.MustCompile(fmt.Sprintf(line, weight, add[0].perWeight, add[1].perWeight, add[2].perWeight,
				add[3].perWeight))
			assert.True(t, said.MatchString(readme(t)), "kernels/README.md has no line %s", said)
		})
	}
}

// TestLong: attention and the matrix products of long passes take the number of instructions that kernels/README.md
// states, as printed by the script of TestInstructions. They use no private memory and no integer division per element.
// With operands of one type they take as many more as it states.
func TestLong(t *testing.T) {
	c := compiler(t)
	l, err := measureLong(c, false)
	require.NoError(t, err)
	equal, err := measureLong(c, true)
	require.NoError(t, err)
	assert.Zero(t, l.private+equal.private)
	assert.Empty(t, append(l.divides, equal.divides...))
	assert.Less(t, l.attends(), l.multiplies(), "with 4,096 keys")
	text := readme(t)
	for what, n := range map[string]string{
		`1 to 8 rows: instructions of a lane for each multiplication`:         fmt.Sprintf("%.1f", l.few),
		`more rows: the same for each of a row, key and head [^|]*`:           fmt.Sprintf("%.1f", l.many),
		`a layer and row of prefill that sees 4,096 keys, [^|]*`:              fmt.Sprintf("%.0f", l.attends()),
		`the matrix products of that layer and row \(14\.9 M weights, Q8_0\)`: fmt.Sprintf("%.0f", l.multiplies()),
	} {
		line := regexp.MustCompile(`(?m)^\| ` + what + ` \| ` + regexp.QuoteMeta(n) + ` \|$`)
		assert.True(t, line.MatchString(text), "kernels/README.md has no line %s", line)
	}
	assert.Equal(t, l.products, equal.products)
	_, _, err = compile(c, "#include <metal_stdlib>\nusing namespace metal;\nkernel void none() {}", []string{"none"})
	assert.ErrorContains(t, err, "none: no loop in the assembly")
	assert.Contains(t, strings.ReplaceAll(text, "\n", " "), fmt.Sprintf(
		"%.1f instructions instead of %.1f for each of a row, key and head of attention, "+
			"and %.1f %% more for products with weights in F16.", equal.many, l.many, 100*(equal.halves/l.halves-1)))
}

// TestTables: each figure is in its column.
func TestTables(t *testing.T) {
	var to bytes.Buffer
	table(&to, "qkv", []string{"F16", "Q8_0"}, []map[string][]figures{
		{"qkv": {{perWeight: 1, registers: 2, private: 3}, {perWeight: 4.256, registers: 5, private: 6}}},
		{"add": {{perWeight: 7}}},
	})
	assert.Equal(t, `| qkv | 1 | 2 | 4 | 8 | registers | private bytes |
| --- | --- | --- | --- | --- | --- | --- |
| F16 | 1.00 | 4.26 | 2 5 | 3 6 |
| Q8_0 | | |
`, to.String())
	to.Reset()
	long{few: 1.5, many: 2.25, products: 0.5}.table(&to)
	assert.Equal(t, `| attention, keys in F16, heads of 64 | |
| --- | --- |
| 1 to 8 rows: instructions of a lane for each multiplication | 1.50 |
| more rows: of a simdgroup for each of a row, key and head | 2.25 |
| a layer and row that sees 4096 keys, thousands of a simdgroup | 129 |
| matrix products of that layer and row, Q8_0, thousands | 7455 |
`, to.String())
}

// readme returns the documentation of the kernels.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../kernels/README.md")
	require.NoError(t, err)
	return string(text)
}

// TestRead finds the loops of a text, including blocks before their header and pairs of instructions.
func TestRead(t *testing.T) {
	k := read(`
one:                                    ; @one
; %bb.0:
	s_load_b32 s0, s[0:1], 0x0
.LBB0_1:                                ;   in Loop: Header=BB0_2 Depth=1
	v_add_f32_e32 v0, v1, v2
.LBB0_2:                                ; =>This Loop Header: Depth=1
                                        ;     Child Loop BB0_3 Depth 2
	s_waitcnt vmcnt(0)
	;
	
	v_mov_b32_e32 v0, 0
.LBB0_3:                                ;   Parent Loop BB0_2 Depth=1
                                        ; =>  This Inner Loop Header: Depth=2
	v_dual_fmac_f32 v0, v1, v2 :: v_dual_fmac_f32 v3, v4, v5
	s_cbranch_scc1 .LBB0_3
; %bb.4:                                ;   in Loop: Header=BB0_2 Depth=1
	; simdgroup_multiply v0 v1 v2 v3 v4 v5
	; simdgroup_barrier
	; simd_sum v0
	v_mul_hi_u32 v0, v1, v2
	s_cbranch_scc1 .LBB0_1
; %bb.5:
	s_endpgm
; NumVgprs: 6
; ScratchSize: 8
`)["one"]
	require.NotNil(t, k)
	assert.Equal(t, 6, k.registers)
	assert.Equal(t, 8, k.private)
	assert.Equal(t, map[string]*loop{
		"BB0_2": {instructions: 21, fmas: 16, divisions: 1}, "BB0_3": {parent: "BB0_2", instructions: 3, fmas: 2},
	}, k.loops)
	best, n := k.busiest(4)
	assert.Equal(t, "BB0_2", best)
	assert.Equal(t, 21+4*3, n)
	assert.Equal(t, []string{"BB0_2"}, k.divides())
	k.loops["BB0_2"].fmas = 1
	best, n = k.busiest(1)
	assert.Equal(t, "BB0_3", best)
	assert.Equal(t, 3, n)
	k.loops["BB0_2"].fmas = 0
	assert.Equal(t, []string{"BB0_2"}, k.divides(), "an inner loop multiplies")
	k.loops["BB0_3"].fmas = 0
	assert.Empty(t, k.divides(), "nothing is multiplied")
}
