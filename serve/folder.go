package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/files"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Names of files in a folder.
const (
	savedSuffix = ".kv"
	newPrefix   = "new-" // of incomplete files
	nameBytes   = 16     // the name is this part of the hash of the text, in hexadecimal
)

// Folder stores texts with their KV cache, when they lose their place in memory and when the server ends. Above its
// limit of bytes it removes the least recently used texts. Only one process at a time may use it. Its files contain
// texts of users: only their owner can read them.
type Folder struct {
	path   string
	limit  int64 // bytes of all files
	log    *slog.Logger
	unlock func()
	model  model

	mu    sync.Mutex
	saved []savedText // most recently used last
	bytes int64       // of all files
}

type savedText struct {
	name  string
	text  []int32 // nil: of another model or with other settings
	bytes int64
}

// OpenFolder opens a folder, which it creates if needed, for files of limit bytes in total. The caller closes it after
// the server.
func OpenFolder(path string, limit int64, log *slog.Logger) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	unlock, err := files.Lock(filepath.Join(path, "lock"))
	if errors.Is(err, files.ErrHeld) {
		return nil, fmt.Errorf("%w: give each server a folder of its own", err)
	}
	if err != nil {
		return nil, err
	}
	f := &Folder{path: path, limit: limit, log: log, unlock: unlock}
	if err := f.listFiles(); err != nil {
		unlock()
		return nil, err
	}
	return f, nil
}

// listFiles finds the files of earlier processes.
func (f *Folder) listFiles() error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	used := map[string]time.Time{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, newPrefix) {
			_ = os.Remove(f.filePath(name)) // left by a process that was killed
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !isSaved(name) {
			continue // removed in the meantime, or not one of these files
		}
		used[name] = info.ModTime()
		f.saved = append(f.saved, savedText{name: name, bytes: info.Size()})
		f.bytes += info.Size()
	}
	slices.SortFunc(f.saved, func(a, b savedText) int { return used[a.name].Compare(used[b.name]) })
	f.makeRoom(0)
	return nil
}

// isSaved reports whether a name has the form that addFile uses.
func isSaved(name string) bool {
	digits, ok := strings.CutSuffix(name, savedSuffix)
	b, err := hex.DecodeString(digits)
	return ok && err == nil && len(b) == nameBytes
}

// indexTexts reads the texts of the files that a model can load.
func (f *Folder) indexTexts(m model) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model = m
	known, other := 0, 0
	for i := range f.saved {
		s := &f.saved[i]
		file, err := os.Open(f.filePath(s.name))
		if err == nil {
			s.text, err = m.SavedText(bufio.NewReader(file))
			_ = file.Close() // opened for reading only
		}
		if known++; err != nil {
			known, other = known-1, other+1
			f.log.Info("saved keys and values are of no use here", "file", s.name, "error", err)
		}
	}
	f.log.Info("saved keys and values", "folder", f.path, "texts", known, "of_no_use", other, "bytes", f.bytes)
}

// Close unlocks the folder.
func (f *Folder) Close() { f.unlock() }

func (f *Folder) filePath(name string) string { return filepath.Join(f.path, name) }

// loadText loads the saved text with the longest common prefix with a prompt into a session, if that prefix has more
// than more tokens. It reports whether it did. A file that cannot be loaded is removed.
func (f *Folder) loadText(ctx context.Context, s session, prompt []int32, more int) bool {
	if f == nil {
		return false
	}
	name := f.longestPrefixFile(prompt, more)
	if name == "" {
		return false
	}
	file, err := os.Open(f.filePath(name))
	if err == nil {
		_, err = s.LoadKV(ctx, bufio.NewReader(file))
		_ = file.Close() // opened for reading only
	}
	if err != nil && ctx.Err() != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.findFile(name)
	switch {
	case err != nil:
		f.log.Warn("saved keys and values cannot be used: they are computed again", "file", name, "error", err)
		if i >= 0 {
			f.removeFile(i)
		}
	case i >= 0:
		f.touchFile(i)
	}
	return err == nil
}

// longestPrefixFile returns the file of the text with the longest common prefix with a prompt, if that prefix has more
// than more tokens.
func (f *Folder) longestPrefixFile(prompt []int32, more int) (name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.saved {
		if n := terms.CommonPrefix(s.text, prompt); n > more {
			name, more = s.name, n
		}
	}
	return name
}

// saveText writes the text of a session, unless a file contains it already. It replaces files of prefixes of the text.
// Errors are logged: the text must then be computed again.
func (f *Folder) saveText(ctx context.Context, s session) {
	if f == nil {
		return
	}
	ctx = context.WithoutCancel(ctx) // the request that needs the place must not cancel this
	if err := f.writeText(ctx, s); err != nil {
		f.log.Warn("keys and values could not be saved", "folder", f.path, "error", err)
	}
}

// hasText reports whether a file contains a text. It marks that file as used.
func (f *Folder) hasText(text []int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.saved {
		if terms.CommonPrefix(s.text, text) == len(text) {
			f.touchFile(i)
			return true
		}
	}
	return false
}

// writeText writes the text of a session to a temporary file and then renames it.
func (f *Folder) writeText(ctx context.Context, s session) (err error) {
	file, err := os.CreateTemp(f.path, newPrefix+"*"+savedSuffix) // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails after the renaming
	b := &limitedWriter{file, f.limit}
	to := bufio.NewWriterSize(b, 1<<20)
	err = s.SaveKV(ctx, &headerCheckWriter{to, func(head []byte) error {
		if text, err := f.model.SavedText(bytes.NewReader(head)); err == nil && f.hasText(text) {
			return errSaved
		}
		return nil
	}})
	if errors.Is(err, errSaved) {
		return file.Close()
	}
	if err != nil && b.left == f.limit && to.Buffered() == 0 {
		f.log.Debug("there are no keys and values to save", "error", err) // such as of an answer that ended before
		return file.Close()
	}
	if err = errors.Join(err, to.Flush()); err == nil {
		err = file.Sync()
	}
	var text []int32
	if err == nil {
		if _, err = file.Seek(0, io.SeekStart); err == nil {
			text, err = f.model.SavedText(bufio.NewReader(file))
		}
	}
	info, wrong := file.Stat()
	if err = errors.Join(err, wrong, file.Close()); err != nil {
		return err
	}
	return f.addFile(file.Name(), text, info.Size())
}

// errSaved ends the writing of a text that a file contains already.
var errSaved = errors.New("the text is saved already")

// headerCheckWriter is a writer that shows its first bytes, the header with the text of a session, to check. The text
// that was sent to clients says less: the session has keys and values of fewer tokens than that.
type headerCheckWriter struct {
	io.Writer
	check func(head []byte) error // nil: it has been called
}

func (h *headerCheckWriter) Write(p []byte) (int, error) {
	if check := h.check; check != nil {
		h.check = nil
		if err := check(p); err != nil {
			return 0, err
		}
	}
	return h.Writer.Write(p)
}

// limitedWriter is a writer with a limit of bytes.
type limitedWriter struct {
	to   io.Writer
	left int64
}

func (b *limitedWriter) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errors.New("the text is larger than the limit of the folder: increase the limit")
	}
	return b.to.Write(p)
}

func (f *Folder) addFile(temp string, text []int32, size int64) error {
	sum := sha256.New()
	_ = binary.Write(sum, binary.LittleEndian, text) // writing to a hash never fails
	name := hex.EncodeToString(sum.Sum(nil)[:nameBytes]) + savedSuffix
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.saved) - 1; i >= 0; i-- {
		if s := f.saved[i]; s.name == name || s.text != nil && terms.CommonPrefix(s.text, text) == len(s.text) {
			f.removeFile(i)
		}
	}
	f.makeRoom(size)
	if err := os.Rename(temp, f.filePath(name)); err != nil {
		return err
	}
	f.saved = append(f.saved, savedText{name, text, size})
	f.bytes += size
	return nil
}

func (f *Folder) makeRoom(size int64) {
	for len(f.saved) > 0 && f.bytes+size > f.limit {
		f.removeFile(0)
	}
}

func (f *Folder) findFile(name string) int {
	return slices.IndexFunc(f.saved, func(s savedText) bool { return s.name == name })
}

func (f *Folder) removeFile(i int) {
	if err := os.Remove(f.filePath(f.saved[i].name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		f.log.Warn("saved keys and values could not be removed", "error", err)
	}
	f.bytes -= f.saved[i].bytes
	f.saved = slices.Delete(f.saved, i, i+1)
}

// touchFile makes a file the most recently used one, also for later processes.
func (f *Folder) touchFile(i int) {
	s := f.saved[i]
	f.saved = append(slices.Delete(f.saved, i, i+1), s)
	now := time.Now()
	_ = os.Chtimes(f.filePath(s.name), now, now) // if it fails, only the order is lost
}
