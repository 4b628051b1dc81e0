package chat

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestChatSaveNames: write errors name the requested file and the missing folder.
func TestChatSaveNames(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "full"), 0o700))
	err := cli.ReplaceFile(folder, nil, 0o600)
	require.ErrorContains(t, err, "write "+folder+": ")
	assert.NotContains(t, err.Error(), ".folder-")
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	err = cli.ReplaceFile(filepath.Join(file, "x"), nil, 0o600)
	require.ErrorContains(t, err, "write "+filepath.Join(file, "x")+": ")
	assert.NotContains(t, err.Error(), ".x-")
	if os.Getuid() != 0 { // root may write everywhere
		require.NoError(t, os.Chmod(folder, 0o500))
		err = cli.ReplaceFile(filepath.Join(folder, "x"), nil, 0o600)
		require.ErrorContains(t, err, "write "+filepath.Join(folder, "x")+": no file can be created in the folder: ")
		assert.True(t, errors.Is(err, fs.ErrPermission))
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2, "no temporary file is left")
}

func TestChatNumberFlags(t *testing.T) {
	clitest.NumbersReach(t, func(args []string) (terms.Settings, error) {
		var f chatFlags
		command := &cobra.Command{}
		f.registerFlags(command)
		require.NoError(t, command.ParseFlags(append([]string{"-m", "m"}, args...)))
		if err := cli.CheckFlags(f.set); err != nil {
			return terms.Settings{}, err
		}
		err := f.answer.Parse(f.set)
		return f.answer.Settings, err
	})
}
