package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBenchLink: --json gives a line for each part, and the text has the same parts.
func TestBenchLink(t *testing.T) {
	racing.Spare(t)
	args := strings.Fields("link --rtt 2ms --questions 5 --tokens 8,9")
	code, stdout, stderr := clitest.Call(t, append(args, "--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	all := clitest.Lines[wire.LinkReport](t, stdout)
	require.Len(t, all, 6)
	assert.Equal(t, "ask with 9 new tokens, until its answer", all[1].Timed)
	assert.Equal(t, 2., all[2].RTTMS)
	assert.Equal(t, 6, strings.Count(stdout, `"run":{"measurement":"bench link"`))
	assert.Equal(t, 6, strings.Count(stdout, `"bandwidth_gbs":`))
	code, stdout, stderr = clitest.Call(t, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^ask with 9 new tokens, until its answer +2 ms .* 5 `, stdout)
	assert.Regexp(t, `(?m)^end of an outage of 1,000 ms, until an answer +2 ms .* 1 `, stdout)
}
