package cloud

import (
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestServiceMetrics: every count of the built-in engine has a metric, with the value of this count.
func TestServiceMetrics(t *testing.T) {
	var s engine.ServiceStats
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.CanInt() {
			f.SetInt(int64(i + 1))
		} else {
			f.SetUint(uint64(i + 1))
		}
	}
	to := prometheus.NewRegistry()
	to.MustRegister(newServiceMetrics(func() engine.ServiceStats { return s }))
	families, err := to.Gather()
	require.NoError(t, err)
	have := map[string]float64{}
	for _, f := range families {
		have[f.GetName()] = clitest.Sum(f)
	}
	want := map[string]float64{}
	for field, name := range map[string]string{"Slots": "slots", "InUse": "slots_used",
		"InCommon": "slots_common", "Shared": "shared_tokens_total", "Sessions": "sessions",
		"Waiting": "asks_waiting", "Steps": "steps_total", "Computed": "computed_tokens_total",
		"Guessed": "guessed_tokens_total", "Accepted": "held_tokens_total", "Reused": "reused_tokens_total",
		"Evicted": "evicted_tokens_total", "Shed": "shed_asks_total", "Recomputed": "recomputed_tokens_total",
		"Repeated": "repeated_tokens_total", "Ahead": "ahead_tokens_total", "AheadShed": "shed_ahead_total"} {
		at, ok := v.Type().FieldByName(field)
		require.True(t, ok, field)
		want["pilotfish_engine_"+name] = float64(at.Index[0] + 1)
	}
	assert.Equal(t, want, have)
	assert.Len(t, have, v.NumField(), "a metric for every count")
}
