package run

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// agreeingFlags are the flags of the runs of [TestFiguresAgree], in lines.
const agreeingFlags = `
--policy always
--policy never
--policy random
--threshold 0
--threshold 0.5 --mode serial
--threshold 1 --branches 4
--budget 1
--budget 0.01
--verify 0
--verify 2 --policy never
--verify 0 --policy always
--verify 0 --mode serial --verify-every 3
--verify 0 --ahead 8
--verify 0 --temp 1 --seed 3
--verify 0 -n 3
--deadline 1us
--deadline 1us --policy always
--deadline 1us --verify 0
--policy always --ahead 8
--policy always --mode serial
--policy always --ignore-eos -n 60
--policy always --lookup off -n 1
--no-warm
--no-warm --policy never
--no-audit
--temp 1 --seed 3
-n 1
-n 0 --policy entropy
--stop eating`

// assertStatsAgree checks what --stats printed.
func assertStatsAgree(t *testing.T, flags, text string) {
	t.Helper()
	parts, shares := regexp.MustCompile(`(\d+) of (\d+)`), regexp.MustCompile(`([\d.]+)%`)
	for _, n := range parts.FindAllStringSubmatch(text, -1) {
		part, _ := strconv.Atoi(n[1])
		whole, _ := strconv.Atoi(n[2])
		assert.True(t, part <= whole && whole > 0, "%s: %s", flags, text)
	}
	for _, n := range shares.FindAllStringSubmatch(text, -1) {
		share, err := strconv.ParseFloat(n[1], 64)
		assert.True(t, err == nil && share <= 100, "%s: %s", flags, text)
	}
	assert.NotRegexp(t, `NaN|Inf| at 0\.0/s|[^f] 1 (token|question)s`, text, flags)
	unbound := regexp.MustCompile(`policy (al|ne)|thres|verify`).MatchString(flags)
	assert.Equal(t, !unbound, strings.Contains(text, "budget "), "%s: %s", flags, text)
}

// assertSummaryAgrees checks the summary, the last of the lines that --json printed.
func assertSummaryAgrees(t *testing.T, flags string, lines []clitest.RunEvent) {
	t.Helper()
	s := lines[len(lines)-1].Summary
	large := 0
	for _, e := range lines[:len(lines)-1] {
		if e.Origin == "cloud" {
			large++
		}
	}
	assert.GreaterOrEqual(t, s.Cloud, large, "an end token may be of the large model: %s", flags)
	assert.Equal(t, s.Escalations, s.Answered+s.Late+s.Failed+s.Unasked+s.Known, flags)
	assert.GreaterOrEqual(t, s.Asks, s.Answered, flags)
	assert.GreaterOrEqual(t, s.Answered, s.Hits, flags)
	assert.GreaterOrEqual(t, s.Answered+s.Known, s.Needless, flags)
	assert.GreaterOrEqual(t, s.Audited, s.Missed, flags)
	assert.GreaterOrEqual(t, s.Ahead, s.AheadUsed, flags)
	assert.GreaterOrEqual(t, s.Wait, s.Hidden, flags)
	assert.GreaterOrEqual(t, s.Exposed, s.Lost, flags)
}

// TestFiguresAgree: whatever the flags, no figure below an answer contradicts another, and none is without meaning.
func TestFiguresAgree(t *testing.T) {
	clitest.OwnFolders(t)
	small, large, _ := clitest.DemoPairFiles(t)
	address, pin, _ := clitest.StartCloud(t, "-m", large)
	for flags := range strings.SplitSeq(agreeingFlags, "\n") {
		args := append([]string{"run", "-m", small, "--cloud", address, "--pin", pin}, strings.Fields(flags)...)
		args = append(args, demo.Questions(demo.HeldOut)[0].Text)
		code, _, text := clitest.Call(t, append(args, "--stats")...)
		require.Equal(t, cli.ExitDone, code, text)
		assertStatsAgree(t, flags, text)
		code, stdout, text := clitest.Call(t, append(args, "--json")...)
		require.Equal(t, cli.ExitDone, code, text)
		assertSummaryAgrees(t, flags, clitest.Lines[clitest.RunEvent](t, stdout))
	}
}
