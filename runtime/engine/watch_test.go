//go:build !noasm

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestWatch: on the CPU every operation of every forward call is reported in order, each after the previous one; on a
// GPU each pass, by the GPU's clock. The tokens are the same, and a text without a watcher reports nothing.
func TestWatch(t *testing.T) {
	prompt := []int32{5, 6, 7}
	read := func(s *Session, watch *Watcher) (ids []int32) {
		r := Route{Settings: terms.Settings{MaxTokens: 8, IgnoreEnd: true}, Watch: watch}
		for token, err := range s.Routed(t.Context(), prompt, r) {
			require.NoError(t, err)
			ids = append(ids, token.ID)
		}
		return ids
	}
	for name, o := range map[string]Options{"cpu": {}, "gpu": {Backend: aGPU()}} {
		t.Run(name, func(t *testing.T) {
			e := random(t, o, 4)
			s := session(t, e)
			var ops []Op
			watched := read(s, &Watcher{Zero: time.Now(), Tell: func(o Op) { ops = append(ops, o) }})
			calls := s.Summary().Passes + 1
			before := len(ops)
			fresh := session(t, e)
			assert.Equal(t, read(fresh, nil), watched)
			assert.Len(t, ops, before)
			if name == "cpu" {
				onCPU(t, ops, calls, e.model.Config().Layers, len(prompt))
				return
			}
			require.GreaterOrEqual(t, len(ops), calls, "a call may wait for a flight in addition to its own pass")
			slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.DeviceBegin, b.DeviceBegin) })
			for i, o := range ops {
				assert.Equal(t, backend.OpRun, o.Kind)
				assert.Less(t, o.DeviceBegin, o.DeviceEnd)
				assert.Equal(t, o.Begin, o.End)
				if i > 0 {
					assert.GreaterOrEqual(t, o.DeviceBegin, ops[i-1].DeviceEnd)
				}
			}
		})
	}
}

// onCPU checks the operations of calls.
func onCPU(t *testing.T, ops []Op, calls, layers, prompt int) {
	t.Helper()
	var names []string
	for range calls {
		names = append(names, "embed -1")
		for l := range layers {
			for _, n := range []string{"norm+project", "attend", "project+add", "norm+gate+up", "project+add"} {
				names = append(names, fmt.Sprint(n, " ", l))
			}
		}
		names = append(names, "head -1")
	}
	var have []string
	for i, o := range ops {
		have = append(have, fmt.Sprint(o.Kind, " ", o.Layer))
		assert.LessOrEqual(t, o.Begin, o.End)
		assert.Zero(t, o.DeviceEnd)
		if i > 0 {
			assert.GreaterOrEqual(t, o.Begin, ops[i-1].End)
		}
	}
	assert.Equal(t, names, have)
	assert.EqualValues(t, prompt, ops[0].Rows)
	assert.Positive(t, ops[len(ops)-1].Rows)
}
