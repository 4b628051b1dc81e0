// Package phasetest tells tests which labels a goroutine has.
package phasetest

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// Here returns the labels of the goroutine that calls it, as a profile shows them.
func Here(t testing.TB) map[string][]string {
	t.Helper()
	all := Of(t, "phasetest.Here")
	require.Len(t, all, 1)
	return all[0]
}

// Of returns the labels of the goroutines that are in a function, whose name ends like that.
func Of(t testing.TB, function string) (all []map[string][]string) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 0))
	p, err := profile.Parse(&b)
	require.NoError(t, err)
	for _, s := range p.Sample {
		if within(s, function) {
			all = append(all, s.Label)
		}
	}
	return all
}

// within reports whether a stack has a function.
func within(s *profile.Sample, function string) bool {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if strings.HasSuffix(line.Function.Name, function) {
				return true
			}
		}
	}
	return false
}
