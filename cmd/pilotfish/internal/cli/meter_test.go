package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestMeterWithoutTerminal: without a terminal, each tenth is one line, for steps of any size.
func TestMeterWithoutTerminal(t *testing.T) {
	var out strings.Builder
	m := NewMeter(&out, "m", InBytes)
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
	m = NewMeter(&out, "m", InBytes)
	m.Show(1, -1)
	m.Show(0, 0)
	assert.Empty(t, out.String(), "no output if the length is unknown")
}

// TestPaceText: the rate so far, and the remaining time.
func TestPaceText(t *testing.T) {
	assert.Equal(t, ", 2.5/s, 1m20s left", paceText(100, 200, 40*time.Second))
	assert.Empty(t, paceText(0, 9, time.Minute)+paceText(9, 0, time.Minute)+paceText(9, 9, time.Second/2))
	var b strings.Builder
	m := &Meter{w: &b, what: "x", Paced: true, First: 100, tenth: -1, since: time.Now().Add(-10 * time.Second)}
	m.line(200, 400)
	assert.Regexp(t, regexp.MustCompile(`^x: 50% of 400, (10\.0|9\.9)/s, 20s left\n$`), b.String())
}
