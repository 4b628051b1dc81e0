package main

import (
	"flag"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

var update = flag.Bool("update", false, "write files that are made of what is tested")

// schemaFile describes every line of a measurement.
const schemaFile = "../../docs/study/measurements.schema.json"

// module is the import path of this module.
const module = "github.com/pilotfish-ai/pilotfish"

// replayed is a line of bench routing.
type replayed struct {
	outcome.Report
	Recorded *record.Run `json:"recorded_run,omitempty"`
}

// answered is the last line of run.
type answered struct {
	Summary event.Summary `json:"summary"`
}

// measurements returns the type of the lines of each command.
func measurements() map[string]reflect.Type {
	return map[string]reflect.Type{
		"demo":           reflect.TypeFor[replayed](),
		"bench routing":  reflect.TypeFor[replayed](),
		"bench engine":   reflect.TypeFor[speed.Report](),
		"bench gateway":  reflect.TypeFor[wire.GatewayReport](),
		"bench link":     reflect.TypeFor[wire.LinkReport](),
		"bench capacity": reflect.TypeFor[capacity.Report](),
		"eval":           reflect.TypeFor[eval.RunReport](),
		"run":            reflect.TypeFor[answered](),
	}
}

// measurementSchema returns the schema of all lines.
func measurementSchema(t *testing.T) []byte {
	folders := map[string]string{".": "main"}
	for _, dir := range []string{"bench/capacity", "bench/eval", "bench/eval/stats", "bench/metalplan", "bench/outcome",
		"bench/replay", "bench/result", "bench/speed", "bench/wire", "internal/record", "cmd/internal/event",
		"runtime/draft", "runtime/router"} {
		folders["../../"+dir] = path.Join(module, dir)
	}
	w, err := newSchemaWriter(folders)
	require.NoError(t, err)
	w.Shared = reflect.TypeFor[draft.Summary]()
	interval := reflect.TypeFor[stats.Interval]()
	w.Special[interval] = schemaObject{"$ref": "#/$defs/stats.Interval"}
	w.Defs["stats.Interval"] = w.Struct(interval)
	w.Defs["stats.Interval"].(schemaObject)["type"] = []string{"object", "null"}
	run := w.Of(reflect.TypeFor[record.Run]())
	var each []schemaObject
	names := slices.Sorted(maps.Keys(measurements()))
	for _, name := range names {
		then := w.named(measurements()[name])
		one := w.Defs[path.Base(then["$ref"].(string))].(schemaObject)
		if properties := one["properties"].(schemaObject); properties["run"] == nil {
			properties["run"] = run
			one["required"] = append(one["required"].([]string), "run")
		}
		is := schemaObject{"properties": schemaObject{"measurement": schemaObject{"const": name}}}
		each = append(each, schemaObject{"if": schemaObject{"properties": schemaObject{"run": is}}, "then": then})
	}
	known := schemaObject{"properties": schemaObject{"measurement": schemaObject{"enum": names}}}
	text, err := w.Text(schemaObject{
		"title": "A line of a measurement", "type": "object", "required": []string{"run"}, "allOf": each,
		"description": "What pilotfish-bench and pilotfish run print with --json, one object per line. " +
			"run.measurement is the command, and says which other fields there are.",
		"properties": schemaObject{"run": schemaObject{"allOf": []schemaObject{run, known}}},
	})
	require.NoError(t, err)
	return text
}

// compiled returns the schema as a validator.
func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("measurements.json", doc))
	s, err := c.Compile("measurements.json")
	require.NoError(t, err)
	return s
}

// TestSchemaFile: the file agrees with the types; -update writes it.
func TestSchemaFile(t *testing.T) {
	racing.Spare(t)
	text := measurementSchema(t)
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, text, 0o644))
	}
	have, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	assert.True(t, string(text) == string(have),
		"docs/study/measurements.schema.json differs from the types: go test ./cmd/pilotfish-bench "+
			"-run TestSchemaFile "+
			"-update")
	compiled(t, have)
	assert.Contains(t, string(have), "until the answer was complete", "comments of fields")
}

// TestSchema: the schema accepts the output of every command, and refuses changed lines.
func TestSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	clitest.OwnFolders(t)
	t.Chdir(t.TempDir())
	text := measurementSchema(t)
	s := compiled(t, text)
	tiny := clitest.TinyModel(t, "q8_0")
	const quick = " --questions 2 --rtt 1ms --edge-tps 0 --cloud-ms 0 --deadline off --json"
	for _, c := range []struct {
		args  string
		lines int
	}{
		{"routing" + quick, 7},
		{"routing --modes local,serial,pipelined-2 --parallel 1 --record rec --loss 0.01" + quick, 3},
		{"routing --replay rec --json", 3},
		{"routing --replay rec --rtt 0s,2ms --json", 6},
		{"engine -m " + tiny + " -p 4,8 -n 4 -r 1 --json", 3},
		{"gateway --devices 2 --rate 20 --model-ms 0 --seconds 0.2 --json", 1},
		{"link --rtt 1ms --tokens 4 --questions 5 --json", 5},
		{"capacity -m " + tiny + " -p 9 -n 2 --devices 1 --answers 1 --json", 1},
		{"eval demo --questions 3 --policy never,always,margin --threshold 0.5,0.9 --json", 5},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := clitest.Call(t, strings.Fields(c.args)...)
			require.Equal(t, cli.ExitDone, code, stderr)
			assert.Equal(t, c.lines, validated(t, s, c.args, stdout))
		})
	}
}

// validated checks the lines of measurements in an output, and returns their number. Tokens of run are not
// measurements.
func validated(t *testing.T, s *jsonschema.Schema, name, output string) (n int) {
	t.Helper()
	for line := range strings.Lines(output) {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		require.NoError(t, err)
		object := v.(map[string]any)
		if _, measured := object["run"]; !measured {
			continue
		}
		n++
		require.NoError(t, s.Validate(v), "%s: %.400s", name, line)
		object["surprise"] = 1
		assert.Error(t, s.Validate(v), "a field that no type has")
		delete(object, "surprise")
		object["run"].(map[string]any)["machine"].(map[string]any)["cores"] = "two"
		assert.Error(t, s.Validate(v), "a field of another type")
		delete(object, "run")
		assert.Error(t, s.Validate(v), "without its run")
	}
	return n
}
