package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

func matrix(t *testing.T, args string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := run(t.Context(), strings.Fields(args), &out, &errs)
	return out.String(), err
}

// TestMatrix measures a little of each pair and prints a row for each mode.
func TestMatrix(t *testing.T) {
	const little = "-rtt 1ms,2ms -questions 2 -edge-tps 0 -cloud 0 -n 8 " +
		"-modes local,serial,pipelined-1,pipelined-auto,verified"
	check := func(t *testing.T, args string) {
		text, err := matrix(t, args)
		require.NoError(t, err)
		assert.Contains(t, text, "RTT 1ms, loss 0%, device full speed, cloud 0s a token, 2 answers, ahead 1")
		for _, mode := range []string{"local", "serial", "pipelined-1", "pipelined-auto", "verified"} {
			assert.Equal(t, 2, strings.Count(text, "\n| "+mode+" | "), text)
		}
		assert.Equal(t, 2, strings.Count(text, "pipelined-auto less the best fixed number, pipelined-1: "))
		assert.Equal(t, 2, strings.Count(text, "| to cloud |"))
	}
	t.Run("demo", func(t *testing.T) { check(t, little) })
	t.Run("stories", func(t *testing.T) {
		check(t, little+" -threshold 0.5 -pair "+sharedtest.Shared(t, "data", "models"))
	})
	for args, want := range map[string]string{
		"-questions 0": "-questions 0: give at least one", "-modes x": "-modes: ", "-rtt x": "-rtt: ",
		"-pair /nowhere": "nowhere",
	} {
		_, err := matrix(t, args)
		assert.ErrorContains(t, err, want)
	}
}

// TestBound: a call of the device for each pass, and the verdict on the last token where it was asked for.
func TestBound(t *testing.T) {
	const ms = time.Millisecond
	local := &bench.ModeReport{Mode: "local"}
	local.Each = []bench.Each{{Took: 100 * ms, Passes: 9}, {Took: 200 * ms, Passes: 21}}
	verified := bench.ModeReport{Mode: "verified", Each: []bench.Each{{Passes: 20, LastAsked: true}, {Passes: 20}}}
	f := &flags{cloud: 40 * ms}
	assert.Equal(t, "240", f.boundText(local, verified, 40*ms), "(20 + 20) calls of 10 ms and 40 + 40 ms once, of two")
	assert.Empty(t, f.boundText(nil, verified, 0))
	assert.Empty(t, f.boundText(local, bench.ModeReport{Mode: "serial"}, 0))
}
