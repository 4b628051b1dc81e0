package clitest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Effects tests that each flag of a command sets what it is for, and nothing else. received registers the flags of the
// command, parses a line, and returns what the command hands to the engine, the gateway, the server or the measurement.
// lines has lines of flags, and how what is received differs from that for usual: "Field=value" for each field, with
// "; " between them, and "Field=" for one that is zero then. The line "" has all fields that are not zero for usual.
// Each flag, and each option of a flag with options, must be in a line; elsewhere names those that have other tests.
func Effects(t *testing.T, usual, elsewhere string, lines map[string]string,
	received func(c *cobra.Command, parse func()) any) {
	t.Helper()
	var flags *pflag.FlagSet
	of := func(line string) map[string]string {
		t.Helper()
		c := new(cobra.Command)
		got := received(c, func() {
			t.Helper()
			flags = c.Flags()
			require.NoError(t, c.ParseFlags(strings.Fields(usual+" "+line)), line)
			require.NoError(t, cli.CheckFlags(flags), line)
		})
		all := map[string]string{}
		collectFields(all, "", reflect.ValueOf(got))
		return all
	}
	before := of("")
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		if line == "" {
			assert.Equal(t, lines[line], describeDifferences(nil, before), "without flags")
			continue
		}
		assert.Equal(t, lines[line], describeDifferences(before, of(line)), line)
	}
	Covers(t, flags, slices.Collect(maps.Keys(lines)), elsewhere)
}

// Covers fails the test if none of the lines has a flag, or an option of a flag with options, that elsewhere does not
// name either.
func Covers(t *testing.T, flags *pflag.FlagSet, lines []string, elsewhere string) {
	t.Helper()
	used, names := strings.Join(lines, " ")+" ", flagNames(flags)
	others := strings.Fields(elsewhere)
	for _, name := range names {
		flag, _, _ := strings.Cut(name, " ")
		if !slices.Contains(others, flag) && !strings.Contains(used, "--"+name+" ") &&
			!strings.Contains(used, "--"+name+"=") {
			assert.Fail(t, "no line has --"+name)
		}
	}
	for _, name := range others {
		assert.NotNil(t, flags.Lookup(name), "no flag is called --%s", name)
	}
}

// flagNames returns the names of flags, and "FLAG OPTION" for each option.
func flagNames(flags *pflag.FlagSet) (all []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		o, options := f.Value.(*cli.OptionsFlag)
		if !options {
			all = append(all, f.Name)
			return
		}
		for _, name := range o.Names() {
			all = append(all, f.Name+" "+name)
		}
	})
	return all
}

// collectFields adds the fields within a value that are not zero to all, as text by path. It leaves out functions.
func collectFields(all map[string]string, path string, v reflect.Value) {
	if !v.IsValid() || v.IsZero() {
		return
	}
	switch kind := v.Kind(); {
	case kind == reflect.Func || kind == reflect.Chan:
	case kind == reflect.String:
		all[path] = v.String() // of a secret, too
	case v.CanInterface() && v.Type().Implements(reflect.TypeFor[fmt.Stringer]()):
		all[path] = fmt.Sprint(v)
	case kind == reflect.Pointer && v.Elem().IsZero():
		all[path] = "&0"
	case kind == reflect.Pointer || kind == reflect.Interface:
		collectFields(all, path, v.Elem())
	case kind == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i, element := range v.Seq2() {
			collectFields(all, fmt.Sprintf("%s[%v]", path, i), element)
		}
	case kind == reflect.Struct:
		for f, value := range v.Fields() {
			below := strings.TrimPrefix(path+"."+f.Name, ".")
			if f.Anonymous {
				below = path
			}
			collectFields(all, below, value)
		}
	default:
		all[path] = fmt.Sprint(v)
	}
}

func describeDifferences(before, after map[string]string) string {
	var all []string
	for name, value := range after {
		if old, ok := before[name]; !ok || old != value {
			all = append(all, name+"="+value)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			all = append(all, name+"=")
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// WithCloud adds to lines what the flags of the connection and of the route set in commands that have them all. token
// is a file with the token sesame, net one of a router.
func WithCloud(token, net string, lines map[string]string) map[string]string {
	maps.Copy(lines, map[string]string{
		"--cloud i:2":           "address=i:2",
		"--pin " + OnePin(3):    "Dial.Pin=" + OnePin(3),
		"--token-file " + token: "Dial.Token=sesame",
		"--policy entropy":      "Router.Policy=entropy",
		"--threshold 0.25":      "Router.Budget=; Router.Policy=margin; Router.Threshold=0.25",
		"--budget 0.2":          "Router.Budget=0.2",
		"--router " + net:       "Router.Policy=learned",
		"--deadline 2s":         "Route.Deadline=2s",
		"--deadline off":        "Route.Deadline=-1ns",
		"--verify 0":            "Route.Verify=true; Router.Budget=; Router.Policy=never",
		"--verify 0.5":          "Route.Margin=0.5; Route.Verify=true; Router.Budget=; Router.Policy=never",
	})
	return lines
}

// Numbers returns the names of the flags that [NumbersReach] tests.
func Numbers() string {
	var all []string
	for _, n := range new(terms.Settings).Numbers() {
		all = append(all, n.Flag)
	}
	return strings.Join(all, " ")
}

// NamesOf returns the names of the flags that a function registers.
func NamesOf(register func(*cobra.Command)) string {
	c := new(cobra.Command)
	register(c)
	var all []string
	c.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	return strings.Join(all, " ")
}
