package clitest

import (
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// part is a value within another.
type part struct {
	Name string
	More []int
}

// TestFields: each field that is not zero is there with its path and value, also through pointers, interfaces and
// lists, and those that are unexported.
func TestFields(t *testing.T) {
	type whole struct {
		part
		Part  part
		Parts []part
		Any   any
		Time  time.Duration
		Zero  *int
		One   *int
		None  *int
		Do    func()
		on    bool
	}
	all := map[string]string{}
	fields(all, "", reflect.ValueOf(whole{part{Name: "a"}, part{More: []int{1, 2}}, []part{{}, {Name: "b"}},
		part{Name: "c"}, time.Second, new(int), new(1), nil, func() {}, true}))
	assert.Equal(t, map[string]string{"Name": "a", "Part.More": "[1 2]", "Parts[1].Name": "b", "Any.Name": "c",
		"Time": "1s", "Zero": "&0", "One": "1", "on": "true"}, all)
}

// TestDifferences: a field that is new, another, or gone.
func TestDifferences(t *testing.T) {
	before := map[string]string{"same": "1", "other": "1", "gone": "1"}
	after := map[string]string{"same": "1", "other": "2", "new": "2"}
	assert.Equal(t, "gone=; new=2; other=2", differences(before, after))
	assert.Empty(t, differences(before, before))
}

// TestFlagNames: every flag, and every option of a flag with options.
func TestFlagNames(t *testing.T) {
	flags := new(pflag.FlagSet)
	flags.Bool("a", false, "")
	options := cli.AddOptions(flags, "with")
	cli.Add(options.FlagSet, "with.shard", new(int), 0)
	cli.Add(options.FlagSet, "with.method", new(string), "")
	assert.ElementsMatch(t, []string{"a", "with shard", "with method"}, flagNames(flags))
}
