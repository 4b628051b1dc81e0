package pilotfish

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// fill sets each field of a struct to another value than zero, different from those of all other fields. Of the fields
// that are true or false, only the one with the index on becomes true.
func fill(t *testing.T, options any, on int) {
	t.Helper()
	s := reflect.ValueOf(options).Elem()
	require.LessOrEqual(t, s.NumField(), fields)
	for i := range s.NumField() {
		f, n := s.Field(i), int64(i+2)
		switch f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprint(s.Type().Field(i).Name, n))
		case reflect.Int, reflect.Int64:
			f.SetInt(n)
		case reflect.Uint64:
			f.SetUint(uint64(n))
		case reflect.Float64:
			f.SetFloat(float64(n) / 16)
		case reflect.Bool:
			f.SetBool(i == on)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), int(n), int(n)))
		case reflect.Array:
			f.Index(0).SetUint(uint64(n))
		case reflect.Struct:
			fill(t, f.Addr().Interface(), on)
		case reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		case reflect.Interface: // set by the test, if it matters
		default:
			t.Fatalf("%s is a %s", s.Type().Field(i).Name, f.Kind())
		}
	}
}

// reach requires that each field of options has its value in the field of the same name of made, or in the one that
// names says. Fields of which names says "" are for the test itself.
func reach(t *testing.T, options, made any, names map[string]string) {
	t.Helper()
	from, to := reflect.ValueOf(options), reflect.ValueOf(made)
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		there, other := names[name]
		if other && there == "" {
			continue
		}
		if !other {
			there = name
		}
		f := to.FieldByName(there)
		if assert.True(t, f.IsValid(), "%s: there is no field %s", name, there) {
			assert.Equal(t, shown(from.Field(i)), shown(f), name)
		}
	}
}

// shown returns a value as a text: also a secret, which hides itself.
func shown(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	return fmt.Sprint(v)
}

// TestOptionsReach: each option comes to the field of the engine or of the router that has its name.
func TestOptionsReach(t *testing.T) {
	for on := range fields {
		var options Options
		fill(t, &options, on)
		options.Backend = "metal"
		opened, err := options.engineOptions()
		require.NoError(t, err)
		reach(t, options, opened, map[string]string{"Drafter": ""})

		var routed RouterOptions
		fill(t, &routed, on)
		reach(t, routed, routed.routerOptions(), map[string]string{"File": ""})

		var route Route
		fill(t, &route, on)
		reach(t, route, route.draftOptions(), map[string]string{"Cloud": "", "Router": "", "Serial": "", "Pace": ""})

		var dial DialOptions
		fill(t, &dial, on)
		dial.Pin = strings.Repeat("5a", 32)
		dialled, err := dial.engineOptions()
		require.NoError(t, err)
		reach(t, dial, dialled, map[string]string{"Token": "Secret", "Timeout": "ConnectTimeout"})
	}
}

// fields is at least the number of fields of any of these structs.
const fields = 32

// TestDrafterOfAnswers: a drafter drafts the answers of the model alone, but not where a caller's sampler chooses.
func TestDrafterOfAnswers(t *testing.T) {
	m := &Model{drafter: new(engine.Engine)}
	route, sampler := &Route{Cloud: &Gateway{}, Router: policy{}}, struct{ Sampler }{}
	for name, c := range map[string]struct {
		r    request
		want *engine.Engine
	}{
		"alone":           {request{}, m.drafter},
		"with a route":    {request{route: route}, nil},
		"a local answer":  {request{route: route, settings: terms.Settings{Local: true}}, m.drafter},
		"the own sampler": {request{sampler: sampler}, nil},
	} {
		made, err := m.engineRoute(c.r, nil)
		require.NoError(t, err, name)
		assert.Same(t, c.want, made.Drafter, name)
	}
}

// TestRouteReaches: each setting of a route comes to the field of the engine's route, or of its draft options, that has
// its name.
func TestRouteReaches(t *testing.T) {
	for on := range fields {
		var route Route
		fill(t, &route, on)
		gateway := &Gateway{}
		route.Cloud, route.Router = gateway, policy{}
		traced := newRequest([]Option{Trace(time.Unix(9, 0), 0.5, func(Op) {})}).trace
		made, err := new(Model).engineRoute(request{route: &route, trace: traced}, nil)
		require.NoError(t, err)
		own := map[string]string{"Cloud": "", "Router": "", "Serial": "", "Pace": ""}
		reach(t, route, made.Draft, own)
		assert.Equal(t, route.Serial, made.Draft.Mode == engine.Serial)
		assert.Equal(t, route.Explain, made.Draft.K == 1)
		assert.Equal(t, route.Pace, made.Pace)
		assert.Equal(t, gateway.engineFar(), made.Far)
		assert.Same(t, traced, made.Watch)
		assert.True(t, made.Draft.Trace)
		assert.Equal(t, 0.5, traced.Share)
		assert.Equal(t, time.Unix(9, 0), traced.Zero)
		assert.NotNil(t, traced.Tell)
		alone, err := new(Model).engineRoute(request{trace: traced}, nil)
		require.NoError(t, err)
		assert.Same(t, traced, alone.Watch)
		assert.True(t, alone.Draft.Trace)
	}
}
