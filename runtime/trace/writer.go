package trace

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// Writer appends the prompts of a set to its file. One goroutine may use it at a time.
type Writer struct {
	f        *os.File
	settings Settings
	prompts  int
	end      int64
	sum      uint32
	unlock   func()
}

// Create makes the file of a set, or continues one with the same settings: it checks the prompts that are there and
// keeps them. It refuses a file with other settings and names the setting that differs. The file is locked against
// other writers until [Writer.Close].
func Create(path string, s Settings) (*Writer, error) {
	if err := s.validateLimits(); err != nil {
		return nil, err
	}
	line, err := s.encodeHeader()
	if err != nil {
		return nil, err
	}
	unlock, err := files.Lock(path + ".lock")
	if errors.Is(err, files.ErrHeld) {
		return nil, fmt.Errorf("another process is writing traces to %s: wait for it, or choose another file", path)
	}
	if err != nil {
		return nil, err
	}
	w := &Writer{settings: s, unlock: unlock, end: int64(len(line)), sum: crc32.ChecksumIEEE(line)}
	if err := w.openFile(path, line); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Writer) openFile(path string, line []byte) error {
	err := w.resumeFile(path, line)
	if err != nil {
		return err
	}
	if w.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	if w.prompts == 0 {
		if _, err := w.f.WriteAt(line, 0); err != nil {
			return err
		}
	}
	return errors.Join(w.f.Truncate(w.end), files.SyncFolder(path))
}

// resumeFile reads what is there. A line without any prompt may be replaced.
func (w *Writer) resumeFile(path string, line []byte) error {
	b, release, err := mapFile(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errEmpty) {
		return nil
	} else if err != nil {
		return err
	}
	defer release()
	if bytes.HasPrefix(line, b) { // it was stopped at once
		return nil
	}
	c, err := parseContents(b)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(c.prompts) == 0 {
		return nil
	}
	if what := errs.Differences(c.settings, w.settings); what != "" {
		return fmt.Errorf("%s holds traces of other settings: %s; choose another file, or remove this one", path, what)
	}
	w.prompts, w.end, w.sum = len(c.prompts), int64(c.end), c.sum
	return nil
}

// Prompts returns the number of prompts that are in the file.
func (w *Writer) Prompts() int { return w.prompts }

// flushed is the number of prompts after which they are flushed to the disk.
const flushed = 32

// Append stores the next prompt, completely or not at all, even if the process stops.
func (w *Writer) Append(t Text) error {
	if w.prompts == w.settings.Prompts {
		return fmt.Errorf("%s has all of its %d prompts", w.f.Name(), w.prompts)
	}
	b, err := t.encodeRecord(w.prompts, w.settings.Width)
	if err != nil {
		return err
	}
	sum := crc32.Update(w.sum, crc32.IEEETable, b)
	b = order.AppendUint32(b, sum)
	if _, err = w.f.WriteAt(b, w.end); err != nil {
		return errors.Join(err, w.f.Truncate(w.end))
	}
	if w.prompts, w.end, w.sum = w.prompts+1, w.end+int64(len(b)), sum; w.prompts%flushed == 0 {
		return w.f.Sync()
	}
	return nil
}

// Close releases the file for other writers.
func (w *Writer) Close() (err error) {
	if w.f != nil {
		err = errors.Join(w.f.Sync(), w.f.Close())
	}
	w.unlock()
	return err
}
