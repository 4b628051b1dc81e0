package eval

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
)

// TestPass1: the columns of tasks with programs are named pass@1, those of other tasks are not.
func TestPass1(t *testing.T) {
	r := &eval.Report{Graded: true, Runs: []eval.RunReport{{}}}
	for name, want := range map[string]string{
		task.HumanEval: "pass@1", task.MBPP: "pass@1", task.CSQA: "right", "q.jsonl": "right",
	} {
		assert.Equal(t, want, evalColumns(name, r)[1].name)
	}
}
