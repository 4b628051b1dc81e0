package trace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// Writer writes the shards of a set to a folder. One goroutine may use it at a time.
type Writer struct {
	dir      string
	settings Settings
	manifest [32]byte
	done     []bool // by shard
	unlock   func()
}

// Create makes the folder of a set, or continues one with the same settings: it checks the existing shards and keeps
// them. It refuses a folder with other settings and names the setting that differs. The folder is locked against other
// writers until [Writer.Close].
func Create(dir string, s Settings) (*Writer, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	b, err := s.encode()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := files.Lock(filepath.Join(dir, "lock"))
	if errors.Is(err, files.ErrHeld) {
		return nil, fmt.Errorf("another process is writing traces to %s: wait for it, or choose another folder", dir)
	}
	if err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, settings: s, manifest: sha256.Sum256(b), done: make([]bool, s.Shards()), unlock: unlock}
	err = w.describe(b)
	if err == nil {
		err = w.find()
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// describe writes the manifest, or compares it with the existing one. A manifest without any shard may be replaced.
func (w *Writer) describe(b []byte) error {
	there, sum, err := readManifest(w.dir)
	shards, unreadable := os.ReadDir(w.dir)
	empty := unreadable == nil && !slices.ContainsFunc(shards, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "shard-") && strings.HasSuffix(e.Name(), ".trace")
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && empty || err == nil && sum != w.manifest && empty:
		return replace(filepath.Join(w.dir, manifestName), func(f *os.File) error {
			_, err := f.Write(b)
			return err
		})
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s has shards, but not what they are of: choose another folder, or remove this one: %w",
			w.dir, err)
	case err != nil:
		return errors.Join(err, unreadable)
	case sum == w.manifest:
		return nil
	}
	here, err := parseManifest(b)
	if err != nil {
		return err
	}
	what := differs(*there, *here, "")
	if what == "" {
		what = manifestName + " has been changed"
	}
	return fmt.Errorf("%s holds traces of other settings: %s; choose another folder, or remove this one", w.dir, what)
}

// find finds existing shards.
func (w *Writer) find() error {
	for i := range w.done {
		_, release, err := openShard(w.dir, i, &w.settings, w.manifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = release()
		}
		if err != nil {
			return err
		}
		w.done[i] = true
	}
	return nil
}

// Done reports whether a shard exists.
func (w *Writer) Done(shard int) bool { return w.done[shard] }

// Write stores a shard: all texts of its prompts, in order. The shard is written completely or not at all, even if the
// process or the machine stops.
func (w *Writer) Write(shard int, texts []Text) error {
	path := shardPath(w.dir, shard)
	err := replace(path, func(f *os.File) error {
		return encode(f, &w.settings, w.manifest, shard, texts)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	w.done[shard] = true
	return nil
}

// replace atomically replaces the file at path by what fill writes.
func replace(path string, fill func(f *os.File) error) error {
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	err = errors.Join(fill(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return files.SyncFolder(path)
}

// Close releases the folder for other writers.
func (w *Writer) Close() { w.unlock() }
