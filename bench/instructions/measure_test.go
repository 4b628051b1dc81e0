package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// most are the instructions that a weight may cost, for 1, 2, 4 and 8 rows of activations: a little more than it does.
// For one row, it is never more than 6.
var most = map[string][len(rows)]float64{
	"F32": {2.5, 3.6, 5.9, 10.5}, "F16": {3.3, 4.4, 6.7, 11.3}, "BF16": {3.5, 4.7, 7, 11.5},
	"Q8_0": {3.7, 4.9, 8, 13.3}, "Q4_0": {3, 4.2, 7.5, 13.2}, "Q5_0": {5, 6.3, 9.7, 15.4},
	"Q4_K": {4.6, 6.2, 10.8, 18.5}, "Q5_K": {6, 7.9, 12.7, 20.4}, "Q6_K": {5.4, 6.7, 9.6, 15},
}

// TestInstructions: no mat-vec costs more than 6 instructions for a weight and one row of activations, whatever the
// type, and none has anything in private memory. The inner loop has an fma for each weight and row, and few more.
func TestInstructions(t *testing.T) {
	racing.Spare(t)
	c, err := translate.NewCompiler(translate.Options{})
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	ops := operations[:]
	if testing.Short() {
		ops = ops[:1]
	}
	for _, weight := range kernels.Types() {
		for _, op := range ops {
			all, _, err := measure(c, op, weight)
			require.NoError(t, err)
			for i, n := range all {
				assert.LessOrEqual(t, n.perWeight, most[weight][i], "%s, %s, %d rows", op, weight, rows[i])
				assert.Zero(t, n.private, "%s, %s, %d rows: bytes of private memory", op, weight, rows[i])
				products := weightsEach(weight, rows[i]) * rows[i]
				assert.GreaterOrEqual(t, n.fmas, products, "%s, %s, %d rows", op, weight, rows[i])
				assert.LessOrEqual(t, n.fmas, products*3/2, "%s, %s, %d rows", op, weight, rows[i])
			}
		}
	}
}

// TestRead finds the loops of a text, with blocks before their header and pairs of instructions.
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
	v_mov_b32_e32 v0, 0
.LBB0_3:                                ;   Parent Loop BB0_2 Depth=1
                                        ; =>  This Inner Loop Header: Depth=2
	v_dual_fmac_f32 v0, v1, v2 :: v_dual_fmac_f32 v3, v4, v5
	s_cbranch_scc1 .LBB0_3
; %bb.4:                                ;   in Loop: Header=BB0_2 Depth=1
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
		"BB0_2": {instructions: 3}, "BB0_3": {parent: "BB0_2", instructions: 3, fmas: 2},
	}, k.loops)
	best, n := k.busiest()
	assert.Equal(t, 2, best.fmas)
	assert.Equal(t, 3, n)
}
