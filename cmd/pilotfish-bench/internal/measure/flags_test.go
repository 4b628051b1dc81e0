package measure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestProgramsOfFlags: a task with programs as answers needs the permission to run them.
func TestProgramsOfFlags(t *testing.T) {
	for task, runs := range map[string]bool{"humaneval": true, "mbpp": true, "csqa": false, "": false} {
		for _, allowed := range []bool{false, true} {
			f := CodeFlag{allowed}
			assert.Equal(t, runs && !allowed, f.Check(task) != nil, "%s %v", task, allowed)
		}
	}
	run, err := new(CodeFlag).Runner(t.Context(), new(cli.App), "csqa")
	require.NoError(t, err)
	assert.Nil(t, run)
}

// TestFilesOfFlags: the places of files that are written later are checked first.
func TestFilesOfFlags(t *testing.T) {
	dir := t.TempDir()
	written := filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(written, nil, 0o600))
	for path, want := range map[string]string{"": "", filepath.Join(dir, "new"): "", written: "",
		dir: "a folder, not a file", filepath.Join(dir, "absent", "new"): "there is no folder"} {
		f := TimelineFlag{path: path}
		if err := f.Start(); want == "" {
			require.NoError(t, err, path)
			assert.Equal(t, path != "", f.Line != nil)
		} else {
			assert.ErrorContains(t, err, want, path)
			assert.Nil(t, f.Line)
		}
	}
}

// TestPairContext: a text must fit into both models.
func TestPairContext(t *testing.T) {
	model := clitest.TinyModel(t, "q8_0")
	var all [2]*engine.Engine
	for i, context := range []int{50, 70} {
		e, err := engine.Open(model, engine.Options{Context: context})
		require.NoError(t, err)
		defer e.Close()
		all[i] = e
	}
	assert.Equal(t, 50, (&Pair{Edge: all[0], Large: all[1]}).Context())
	assert.Equal(t, 50, (&Pair{Edge: all[1], Large: all[0]}).Context())
}
