package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestBenchKernels: the table lists the function for each kind of weights; each is in the named file.
func TestBenchKernels(t *testing.T) {
	code, stdout, stderr := clitest.Call(t, "kernels", "all", "--json")
	require.Zero(t, code, stderr)
	sources, inUse := map[string]string{}, 0
	for line := range strings.Lines(stdout) {
		var m speed.Microkernel
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		for name, file := range map[string]string{m.Kernel: m.File, m.Pack: m.PackFile} {
			if name == "" {
				continue
			}
			if sources[file] == "" {
				b, err := os.ReadFile(filepath.Join(clitest.Root(), file))
				require.NoError(t, err, "%s of %s", file, line)
				sources[file] = string(b)
			}
			assert.Regexp(t, `(?m)^(TEXT ·|func |func \(\w+ \w+\) )`+name+`\(`, sources[file])
		}
		if m.InUse {
			inUse++
		}
	}
	assert.Positive(t, inUse)

	code, stdout, stderr = clitest.Call(t, "kernels", "--type", "q4_0")
	require.Zero(t, code, stderr)
	assert.Equal(t, "* in use on this CPU\n", stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Greater(t, len(lines), 1)
	assert.Regexp(t, `^SET +TYPE +TOKENS +MICROKERNEL +FILE +AFTER$`, lines[0])
	for _, line := range lines[1:] {
		assert.Regexp(t, `^\w+\* +Q4_0 +\d+( to \d+| and more)? +\w+ +kernels/cpu/\w+\.(s|go)\b`, line)
	}
	code, stdout, _ = clitest.Call(t, "kernels", "generic", "--json")
	require.Zero(t, code)
	assert.Equal(t, strings.Count(stdout, "\n"), strings.Count(stdout, `"set":"generic"`))
}
