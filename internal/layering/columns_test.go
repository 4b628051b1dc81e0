package layering

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// columns is the max length of a line, with tabs as wide as tabWidth.
const columns, tabWidth = 120, 4

// TestColumns: no line of source has more than 120 columns.
func TestColumns(t *testing.T) {
	eachFile(t, func(path string) {
		if !slices.Contains([]string{".go", ".s", ".h", ".cpp", ".metal"}, filepath.Ext(path)) {
			return
		}
		file, err := os.Open(filepath.Join(root, path))
		require.NoError(t, err)
		defer file.Close()
		for _, line := range longLines(t, file) {
			assert.Fail(t, "a line is longer than 120 columns", "%s:%d", path, line)
		}
	})
}

// root is the folder of the module.
const root = "../.."

// eachFile visits all files of the module, except those in hidden folders, by their slash-separated path from root.
func eachFile(t *testing.T, visit func(path string)) {
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			visit(path)
		case path != "." && d.Name()[0] == '.':
			return fs.SkipDir
		}
		return nil
	})
	require.NoError(t, err)
}

// longLines returns the numbers of the lines that are too long.
func longLines(t *testing.T, r io.Reader) (numbers []int) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if width(lines.Text()) > columns {
			numbers = append(numbers, n)
		}
	}
	require.NoError(t, lines.Err())
	return numbers
}

// width returns the number of columns of a line.
func width(line string) int {
	tabs := strings.Count(line, "\t")
	return utf8.RuneCountInString(line) + tabs*(tabWidth-1)
}

func TestLongLines(t *testing.T) {
	fits, tabbed := strings.Repeat("x", columns), "\t"+strings.Repeat("é", columns-tabWidth)
	text := fmt.Sprintf("%s\n%sx\n%s\n\t%s\n", fits, fits, tabbed, tabbed)
	assert.Equal(t, []int{2, 4}, longLines(t, strings.NewReader(text)))
}
