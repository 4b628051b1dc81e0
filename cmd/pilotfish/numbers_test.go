package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// numberFlags returns the flags of the declared numbers of an answer, with the name of the test that drives them.
func numberFlags(test string) map[string]string {
	all := map[string]string{}
	for _, n := range new(terms.Settings).Numbers() {
		all[n.Flag] = test
	}
	return all
}

// with returns s with its i-th number set to v.
func with(s terms.Settings, i int, v float64) terms.Settings {
	to := reflect.ValueOf(s.Numbers()[i].To).Elem()
	to.Set(reflect.ValueOf(v).Convert(to.Type()))
	return s
}

// TestNumberFlags: each declared number reaches the settings of run and of chat under its own name, and nothing else
// changes; what is out of its range is refused, and so is what has no effect without a temperature.
func TestNumberFlags(t *testing.T) {
	commands := map[string]func(args []string) (terms.Settings, error){
		"run": func(args []string) (terms.Settings, error) {
			f := parsedRun(t, strings.Join(args, " "))
			if err := checkSpans(f.set); err != nil {
				return terms.Settings{}, err
			}
			if err := f.check(nil); err != nil {
				return terms.Settings{}, err
			}
			r, _, _, err := f.routing(&app{})
			return r.Settings, err
		},
		"chat": func(args []string) (terms.Settings, error) {
			var f chatFlags
			command := &cobra.Command{}
			f.register(command)
			require.NoError(t, command.ParseFlags(append([]string{"-m", "m"}, args...)))
			if err := errors.Join(checkSpans(f.set), f.check()); err != nil {
				return terms.Settings{}, err
			}
			err := f.answer.parse(f.set)
			return f.answer.Settings, err
		},
	}
	for command, parse := range commands {
		for i, n := range new(terms.Settings).Numbers() {
			args := []string{"--temp", "1", "--seed", "3"}
			usual, err := parse(args)
			require.NoError(t, err)
			if n.Flag != "temp" {
				assert.Equal(t, with(usual, i, n.Off), usual, "%s without --%s", command, n.Flag)
			}
			for _, v := range []float64{n.Low, n.High} {
				flag := fmt.Sprintf("--%s=%v", n.Flag, int(v))
				if v == 0 && n.Flag == "temp" {
					continue // the seed has no effect then
				}
				got, err := parse(append(args, flag))
				require.NoError(t, err, "%s %s", command, flag)
				assert.Equal(t, with(usual, i, v), got, "%s %s", command, flag)
			}
			for _, v := range []float64{n.Low - 1, n.High + 1} {
				_, err := parse(append(args, fmt.Sprintf("--%s=%.0f", n.Flag, v)))
				assert.ErrorContains(t, err, "--"+n.Flag+" ", command)
			}
			_, err = parse([]string{fmt.Sprintf("--%s=%v", n.Flag, int(n.High))})
			assert.Equal(t, n.Drawn, err != nil, "%s --%s without --temp", command, n.Flag)
		}
	}
}

// TestNumbersTable: the table in docs/structured.md is made of the declarations; -update writes it.
func TestNumbersTable(t *testing.T) {
	const file, begin, end = "../../docs/structured.md", "<!-- numbers -->\n", "<!-- end of numbers -->\n"
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
	assert.Len(t, numberFlags(""), len(s.Numbers()), "a flag is declared twice")
}
