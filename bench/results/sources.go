package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// measuredPackages are the folders whose code makes the figures.
func measuredPackages() []string {
	return []string{
		"bench", "bench/demo", "bench/link", "kernels/cpu", "netproto", "netproto/client", "netproto/gateway",
		"runtime/backend/host", "runtime/batch", "runtime/draft", "runtime/engine", "runtime/lookup", "runtime/qwen2",
		"runtime/router",
	}
}

// sources are the hashes of the measured packages of a checkout: of the names and the contents of their files, without
// tests, in the order of the names.
func sources(root string) (map[string]string, error) {
	all := map[string]string{}
	for _, dir := range measuredPackages() {
		files, err := os.ReadDir(filepath.Join(root, dir)) // sorted by name
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		for _, f := range files {
			if !f.Type().IsRegular() || strings.HasSuffix(f.Name(), "_test.go") || strings.HasSuffix(f.Name(), ".md") {
				continue
			}
			if err := hashFile(h, filepath.Join(root, dir, f.Name())); err != nil {
				return nil, err
			}
		}
		all[dir] = hex.EncodeToString(h.Sum(nil))
	}
	return all, nil
}

// hashFile adds a file's name, length and content.
func hashFile(h io.Writer, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%s %d\n", filepath.Base(path), len(b))
	_, err = h.Write(b)
	return err
}
