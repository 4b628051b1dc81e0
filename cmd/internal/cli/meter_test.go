package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMeterWithoutTerminal: without a terminal, each tenth is one line, for steps of any size.
func TestMeterWithoutTerminal(t *testing.T) {
	var out strings.Builder
	m := NewMeter(&out, "m", true)
	for done := range int64(2001) {
		m.Show(done*1000, 2_000_000)
	}
	m.Close()
	var want strings.Builder
	for tenth := range 11 {
		fmt.Fprintf(&want, "m: %d%% of 2.0 MB\n", tenth*10)
	}
	assert.Equal(t, want.String(), out.String())

	out.Reset()
	m = NewMeter(&out, "m", true)
	m.Show(1, -1)
	m.Show(0, 0)
	assert.Empty(t, out.String(), "no output if the length is unknown")
	m = NewMeter(&out, "answers", false)
	for done := range int64(4) {
		m.Show(done, 3)
	}
	assert.Equal(t, "answers: 0 of 3\nanswers: 1 of 3\nanswers: 2 of 3\nanswers: 3 of 3\n", out.String())
}
