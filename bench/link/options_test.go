package link

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// badValues returns values that a field of a type must refuse.
func badValues(t *testing.T, field reflect.StructField) []any {
	t.Helper()
	switch field.Type {
	case reflect.TypeFor[float64]():
		return []any{-0.01, 1.01, math.NaN(), math.Inf(1)}
	case reflect.TypeFor[time.Duration]():
		return []any{time.Duration(-1), time.Duration(math.MaxInt64)}
	case reflect.TypeFor[int]():
		return []any{-1, math.MaxInt}
	case reflect.TypeFor[int64]():
		return []any{int64(-1), int64(math.MaxInt64)}
	case reflect.TypeFor[*RTTTrace]():
		return []any{&RTTTrace{}}
	case reflect.TypeFor[*CapacityTrace]():
		return []any{&CapacityTrace{}}
	case reflect.TypeFor[string]():
		return []any{"nonsense", "localhost:80", "10.0.0.1:80", "127.0.0.1", "[::]:80"}
	case reflect.TypeFor[uint64]():
		return nil // every seed is valid
	}
	t.Fatalf("%s: this test has no invalid values for a %v", field.Name, field.Type)
	return nil
}

// TestBadOptions: every field refuses invalid values and the error names it: a new field without a check fails here.
func TestBadOptions(t *testing.T) {
	good := Options{Target: "127.0.0.1:9"}
	var visit func(path string, v reflect.Value)
	visit = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			field, name := v.Type().Field(i), path+v.Type().Field(i).Name
			if field.Type.Kind() == reflect.Struct {
				visit(name+".", v.Field(i))
				continue
			}
			was := v.Field(i).Interface()
			for _, bad := range badValues(t, field) {
				v.Field(i).Set(reflect.ValueOf(bad))
				_, err := New(good)
				require.ErrorIs(t, err, ErrOption, "%s: %v", name, bad)
				assert.Contains(t, err.Error(), name+":")
			}
			v.Field(i).Set(reflect.ValueOf(was))
		}
	}
	visit("", reflect.ValueOf(&good).Elem())
	require.NoError(t, good.check())
	most := Options{TraceStart: maxStart, Up: Direction{Rate: maxRate, Loss: 1, Queue: maxQueue, Delay: maxDelay}}
	assert.NoError(t, most.check(), "the limits themselves")
	for _, o := range []Options{{TraceStart: maxStart + 1},
		{Up: Direction{Rate: maxRate + 1}}, {Up: Direction{Queue: maxQueue + 1}},
		{Up: Direction{Delay: maxDelay + 1}}} {
		assert.ErrorIs(t, o.check(), ErrOption, "%+v", o)
	}

	_, err := New(Options{})
	assert.ErrorContains(t, err, "Target")
	trace := read(t, readCapacity, "1\n")
	_, err = New(Options{Target: "127.0.0.1:9", Up: Direction{Rate: 1, Capacity: trace}})
	assert.ErrorContains(t, err, "Up.Rate and Up.Capacity")
	_, err = New(Options{Target: "127.0.0.1:9", Up: Direction{Loss: 2}, Down: Direction{Delay: -1}})
	assert.True(t, strings.Contains(err.Error(), "Up.Loss") && strings.Contains(err.Error(), "Down.Delay"),
		"all faults at once: %v", err)
}

// TestLimits: no sum of times overflows at the limits of all options.
func TestLimits(t *testing.T) {
	d := Direction{Delay: maxDelay, Queue: maxQueue}
	day := read(t, readCapacity, "86400000\n")
	rtt := read(t, ReadRTT, "t_ms,rtt_ms\n0,3600000\n86400000,3600000\n")
	for _, capacity := range []*CapacityTrace{nil, day} {
		d.Capacity, d.Rate = capacity, 0
		if capacity == nil {
			d.Rate = 1
		}
		o := Options{Target: "127.0.0.1:9", Up: d, Down: d, RTT: rtt, TraceStart: maxStart}
		require.NoError(t, o.check())
		e, at, last := newEmulator(o, wayDown), 365*24*time.Hour, time.Duration(0)
		for range maxQueue/65_535 + 10 {
			f := e.arrive(at, 65_535)
			if f.end == departs {
				require.Greater(t, f.across, last)
				require.Greater(t, f.due, f.across)
				last = f.across
			}
		}
	}
}
