package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

var update = flag.Bool("update", false, "write files that are made of what is tested")

// TestNumbersTable: the table in docs/use/structured.md is generated from the declarations; -update writes it.
func TestNumbersTable(t *testing.T) {
	const file, begin, end = "../../docs/use/structured.md", "<!-- numbers -->\n", "<!-- end of numbers -->\n"
	var table strings.Builder
	table.WriteString("| flag | in requests | field | range | what it does |\n|---|---|---|---|---|\n")
	var s terms.Settings
	fields := map[any]string{}
	for i, v := 0, reflect.ValueOf(&s).Elem(); i < v.NumField(); i++ {
		fields[v.Field(i).Addr().Interface()] = v.Type().Field(i).Name
	}
	for _, n := range s.Numbers() {
		fmt.Fprintf(&table, "| `--%s` | `%s` | `%s` | %s | %s |\n", n.Flag, n.Name, fields[n.To], n.Range(), n.Help)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	have, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		have = table.String()
		require.NoError(t, os.WriteFile(file, []byte(before+begin+have+end+after), 0o644))
	}
	assert.Equal(t, table.String(), have, "go test ./cmd/pilotfish -run TestNumbersTable -update")
}
