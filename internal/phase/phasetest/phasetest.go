// Package phasetest returns the labels of a goroutine, for tests.
package phasetest

import (
	"bytes"
	"errors"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// Here returns the labels of the calling goroutine, as a profile has them.
func Here(t testing.TB) map[string][]string {
	t.Helper()
	var b bytes.Buffer
	err := pprof.Lookup("goroutine").WriteTo(&b, 0)
	p, parse := profile.Parse(&b)
	if err := errors.Join(err, parse); err != nil {
		t.Error(err)
		return nil
	}
	for _, s := range p.Sample {
		if within(s, "phasetest.Here") {
			return s.Label
		}
	}
	t.Error("this goroutine is not in its own profile")
	return nil
}

// within reports whether a stack has a function with this suffix of its name.
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
