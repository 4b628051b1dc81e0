package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// watchFolder calls full when the folder has more files or bytes than a program may use. It ends with ctx.
func watchFolder(ctx context.Context, full func(), dir string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(checkFolder):
			if exceedsFolderLimits(dir) {
				full()
			}
		}
	}
}

var errFull = errors.New("the folder is full")

// exceedsFolderLimits does not count files that cannot be read.
func exceedsFolderLimits(dir string) bool {
	entries, size := -1, int64(0) // the folder itself does not count
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		if entries++; entries > maxEntries || size > maxFolder {
			return errFull
		}
		return nil
	})
	return err != nil
}

// removeFolder removes a folder, even if its program has removed permissions.
func removeFolder(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700) // before its entries are read
		}
		return nil
	})
	return os.RemoveAll(dir)
}
