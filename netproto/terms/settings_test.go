package terms

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNumbers: every number of the settings, except the seed and counts of tokens, is declared once, under its own
// name, with a neutral value; each is checked at both ends.
func TestNumbers(t *testing.T) {
	var s Settings
	declared := map[any]bool{}
	for _, n := range s.Numbers() {
		declared[n.To] = true
		to := reflect.ValueOf(n.To).Elem()
		set := func(v float64) {
			to.Set(reflect.ValueOf(v).Convert(to.Type()))
		}
		for _, v := range []float64{n.Low, n.High, n.Off} {
			set(v)
			assert.NoError(t, s.Validate(), "%s %v", n.Name, v)
			assert.Equal(t, v, n.Value(), n.Name)
		}
		assert.False(t, s.Adjusts(), n.Name)
		for _, v := range []float64{n.Low - 1, n.High + 1} {
			set(v)
			assert.ErrorContains(t, s.Validate(), n.Name)
		}
		to.SetZero()
		assert.Equal(t, Settings{}, s, "%s points to another field", n.Name)
	}
	ranges := map[string]string{}
	for _, n := range s.Numbers() {
		ranges[n.Name] = fmt.Sprintf("%s, off: %v, drawn: %v", n.Range(), n.Off, n.Drawn)
	}
	assert.Equal(t, map[string]string{
		"temperature":       "0 to 100, off: 0, drawn: false",
		"top_k":             "0 or more, off: 0, drawn: true",
		"top_p":             "0 to 1, off: 1, drawn: true",
		"min_p":             "0 to 1, off: 0, drawn: true",
		"repeat_penalty":    "0 to 10, off: 1, drawn: false",
		"presence_penalty":  "-2 to 2, off: 0, drawn: false",
		"frequency_penalty": "-2 to 2, off: 0, drawn: false",
	}, ranges)
	all := reflect.ValueOf(&s).Elem()
	for _, n := range s.Numbers() {
		to := all.FieldByNameFunc(func(field string) bool {
			return strings.EqualFold(field, strings.ReplaceAll(n.Name, "_", ""))
		})
		assert.True(t, to.IsValid() && to.Addr().Interface() == n.To, "%s points to another field", n.Name)
		assert.Equal(t,
			map[bool]string{false: strings.ReplaceAll(n.Name, "_", "-"), true: "temp"}[n.Name == "temperature"],
			n.Flag)
	}
	for i := range all.NumField() {
		f := all.Field(i)
		counts := map[string]bool{"MaxTokens": true, "Top": true, "Lookup": true}[all.Type().Field(i).Name]
		if f.Kind() == reflect.Float64 || f.Kind() == reflect.Int && !counts {
			assert.True(t, declared[f.Addr().Interface()], all.Type().Field(i).Name)
		}
	}
}

func TestSampling(t *testing.T) {
	o := Sampling{Temperature: 0.5, TopK: 3, TopP: 0.9, Seed: 7}
	assert.Equal(t, o, Settings{MinP: 1}.With(o).Sampling())
	assert.Equal(t, 1.0, Settings{MinP: 1}.With(o).MinP)
}

func TestSettings(t *testing.T) {
	for _, r := range []Settings{
		{}, {MinP: 1, RepeatPenalty: 2, LogitBias: map[int32]float32{1: -100, 2: 100}}, {PresencePenalty: -2},
		{Top: MaxTop, Stop: []string{"end"}, IgnoreEnd: true}, {JSON: true}, {Schema: []byte("{}")},
		{Schema: []byte("{}"), Call: true},
	} {
		assert.NoError(t, r.Validate(), "%+v", r)
	}
	nan := math.NaN()
	for _, r := range []Settings{
		{MinP: -0.1}, {MinP: 1.1}, {MinP: nan}, {RepeatPenalty: -1}, {RepeatPenalty: nan}, {RepeatPenalty: math.Inf(1)},
		{PresencePenalty: nan}, {FrequencyPenalty: math.Inf(-1)}, {LogitBias: map[int32]float32{1: 101}},
		{LogitBias: map[int32]float32{1: -101}},
		{LogitBias: map[int32]float32{1: float32(nan)}}, {MaxTokens: -1}, {Top: -1}, {Top: MaxTop + 1},
		{Stop: []string{"end", ""}}, {JSON: true, Schema: []byte("{}")}, {JSON: true, IgnoreEnd: true},
		{Schema: []byte("{}"), IgnoreEnd: true}, {Call: true}, {JSON: true, Call: true},
	} {
		assert.Error(t, r.Validate(), "%+v", r)
	}
	assert.ErrorContains(t, Settings{TopK: -1}.Validate(), "top_k: -1 is not possible: 0 or more is")
	assert.ErrorContains(t, Settings{MinP: 2}.Validate(), "min_p: 2 is not possible: 0 to 1 is")
	assert.ErrorContains(t, Settings{LogitBias: map[int32]float32{7: 101}}.Validate(), "101 of token 7 is not within")
	assert.ErrorContains(t, Settings{MaxTokens: -2}.Validate(), "number of tokens must not be negative, but is -2")
	assert.ErrorContains(t, Settings{Top: 21}.Validate(), "21 best tokens with each token are not possible: 0 to 20")
	for r, want := range map[*Settings]struct{ sampledRules, greedyRules bool }{
		{}: {false, false}, {MinP: 0.1}: {true, false},
		{RepeatPenalty: 1}: {false, false}, {RepeatPenalty: 1.1}: {true, true},
		{PresencePenalty: 1}: {true, true}, {FrequencyPenalty: 1}: {true, true},
		{LogitBias: map[int32]float32{1: 1}}: {true, true},
	} {
		assert.Equal(t, want.greedyRules, r.Rules(), "greedy: %+v", *r)
		r.Temperature = 1
		assert.Equal(t, want.sampledRules, r.Rules(), "%+v", *r)
		assert.Equal(t, want.greedyRules, r.Adjusts(), "%+v", *r)
		r.TopK = 1
		assert.Equal(t, want.greedyRules, r.Rules(), "greedy, too: %+v", *r)
	}
}
