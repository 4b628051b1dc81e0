package measure

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/task"
)

// TestSplitFiles: the file of each split is one that `pilotfish-bench eval fetch` downloads.
func TestSplitFiles(t *testing.T) {
	splits := 0
	for _, name := range BenchmarkNames() {
		for _, split := range []string{"training", "calibration", "development", "test"} {
			if s, err := task.FindSplit(name, split); err == nil {
				splits++
				assert.Equal(t, s.File, Published()[fetchName(s)].SHA256, "%s %s", name, split)
			}
		}
	}
	assert.Equal(t, 17, splits)
}
