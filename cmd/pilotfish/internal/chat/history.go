package chat

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/peterh/liner"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// maxHistory limits the size of a history file, in bytes.
const maxHistory = 8 << 20

func historyPath(env func(string) string) (string, error) {
	if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pilotfish", "chat_history"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "pilotfish", "chat_history"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "pilotfish", "chat_history"), err
}

// history is a file with a line for each text. Only this user can read it.
type history struct {
	path  string
	lines []string // when the file was opened
}

// openHistory reads the history. If it is much longer than the part that is used, openHistory also shortens the file.
func openHistory(path string) (*history, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	h := &history{path: path}
	f, info, err := cli.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	long := info.Size() > maxHistory
	if long {
		if _, err := f.Seek(-maxHistory, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxHistory))
	if err != nil {
		return nil, err
	}
	if long { // it begins within a line
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && utf8.ValidString(line) {
			h.lines = append(h.lines, line)
		}
	}
	if n := len(h.lines); n > 2*liner.HistoryLimit {
		h.lines = h.lines[n-liner.HistoryLimit:]
		return h, cli.ReplaceFile(path, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
	return h, os.Chmod(path, 0o600)
}

// appendLine appends a line. It is safe if two chats append at the same time.
func (h *history) appendLine(line string) error {
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
