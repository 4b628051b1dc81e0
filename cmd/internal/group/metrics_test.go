package group

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestUpstreamMetrics: every count of the engines has a metric by engine, with the value of this count, and the log has
// the same values; possible secrets in an address are hidden in metrics.
func TestUpstreamMetrics(t *testing.T) {
	one := engine.UpstreamEngineStats{URL: "http://user:canary@gpu1:8000/x?key=canary", In: true}
	v := reflect.ValueOf(&one).Elem()
	n := 0
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Duration](): // unexported
		case f.CanInt():
			f.SetInt(int64(i))
			n++
		case f.CanUint():
			f.SetUint(uint64(i))
			n++
		}
	}
	to := prometheus.NewRegistry()
	to.MustRegister(NewUpstreamMetrics(func() engine.UpstreamStats {
		return engine.UpstreamStats{Engines: []engine.UpstreamEngineStats{one, {URL: "http://gpu2"}},
			Repeats: 91, Differing: 92}
	})...)
	families, err := to.Gather()
	require.NoError(t, err)
	have := map[string]float64{}
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "pilotfish_upstream_")
		have[name] = f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		if name == "repeats_total" || name == "differing_answers_total" {
			continue
		}
		require.Len(t, f.GetMetric(), 2)
		assert.Equal(t, "gpu1:8000/x", f.GetMetric()[0].GetLabel()[0].GetValue())
		assert.Equal(t, "gpu2", f.GetMetric()[1].GetLabel()[0].GetValue())
		assert.Zero(t, f.GetMetric()[1].GetCounter().GetValue()+f.GetMetric()[1].GetGauge().GetValue())
	}
	want := map[string]float64{"up": 1, "repeats_total": 91, "differing_answers_total": 92}
	for field, name := range map[string]string{"Open": "asks_open", "Outages": "outages_total",
		"Answered": "answers_total", "Failed": "failures_total", "Cancelled": "cancelled_total",
		"Context": "context_tokens_total", "Cached": "cached_tokens_total"} {
		at, ok := v.Type().FieldByName(field)
		require.True(t, ok, field)
		want[name] = float64(at.Index[0])
	}
	assert.Equal(t, want, have)
	assert.Len(t, have, n+3, "a metric for every count")
	var log bytes.Buffer
	logEngineStats(slog.New(slog.NewJSONHandler(&log, nil)),
		engine.UpstreamStats{Engines: []engine.UpstreamEngineStats{one}})
	said := map[string]any{}
	require.NoError(t, json.NewDecoder(&log).Decode(&said))
	for key, metric := range map[string]string{"answered": "answers_total", "failed": "failures_total",
		"cancelled": "cancelled_total", "outages": "outages_total", "cached_tokens": "cached_tokens_total",
		"of_tokens": "context_tokens_total"} {
		assert.Equal(t, want[metric], said[key], key)
	}
}

// TestServiceMetrics: every count of the built-in engine has a metric, with the value of this count.
func TestServiceMetrics(t *testing.T) {
	var stats engine.ServiceStats
	v := reflect.ValueOf(&stats).Elem()
	want := map[float64]bool{}
	for i := range v.NumField() {
		v.Field(i).Set(reflect.ValueOf(i + 1).Convert(v.Field(i).Type()))
		want[float64(i+1)] = true
	}
	to := prometheus.NewRegistry()
	to.MustRegister(NewServiceMetrics(func() engine.ServiceStats { return stats }))
	families, err := to.Gather()
	require.NoError(t, err)
	have := map[float64]bool{}
	for _, f := range families {
		m := f.GetMetric()[0]
		assert.Equal(t, strings.HasSuffix(f.GetName(), "_total"), m.GetCounter() != nil)
		have[m.GetCounter().GetValue()+m.GetGauge().GetValue()] = true
	}
	assert.Equal(t, want, have)
}
