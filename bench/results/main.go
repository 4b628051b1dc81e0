// Results writes the tables and figures of README.md and docs/study/results.md from the measurements in docs/results.
// It runs in a checkout; study.sh repeats the measurements.
//
//	go run ./bench/results              write the blocks between the markers of the pages, and the figures
//	go run ./bench/results adopt FOLDER copy the measurements of a study to docs/results, write the pages
//	go run ./bench/results adopt LOG [QUESTIONS]  the same for answers of eval -o, checked with their questions
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// kept is the folder of committed measurements and figures.
const kept = "docs/results"

func pageFiles() []string {
	return []string{"README.md", "docs/study/results.md", "docs/study/measuring.md"}
}

func main() {
	if err := runCommand(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func runCommand(args []string) error {
	root, err := checkoutRoot()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return writePages(root)
	case args[0] == "adopt" && (len(args) == 2 || len(args) == 3):
		info, err := os.Stat(args[1])
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = adoptStudy(root, args[1])
		} else {
			err = adoptAnswers(root, args[1], strings.Join(args[2:], ""))
		}
		if err != nil {
			return err
		}
		return writePages(root)
	}
	return fmt.Errorf("unknown command %q: give nothing, or adopt FOLDER, or adopt LOG [QUESTIONS]", args)
}

func checkoutRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod in this folder or above: run this in a checkout")
		}
	}
}

// adoptStudy copies the measurements of a study to the checkout: compressed, with the command as it was and without
// paths of the machine.
func adoptStudy(root, dir string) error {
	for _, name := range measurementNames() {
		records, err := result.ReadFile(filepath.Join(dir, name+".jsonl"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		before, err := readMeasurement(root, name)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		for _, r := range records {
			if len(before) > 0 {
				r.Run.Command = before[0].Run.Command
			}
			for name, value := range r.Run.Flags {
				if filepath.IsAbs(value) {
					r.Run.Flags[name] = filepath.Base(value)
				}
			}
			if err := rewriteLine(z, r); err != nil {
				return err
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(keptFile(root, name), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func rewriteLine(out io.Writer, r result.Record) error {
	var fields map[string]json.RawMessage
	if err := r.Into(&fields); err != nil {
		return err
	}
	delete(fields, "run")
	line, err := record.Line(fields, r.Run)
	if err != nil {
		return err
	}
	_, err = out.Write(line)
	return err
}

func keptFile(root, name string) string { return filepath.Join(root, kept, name+".jsonl.gz") }
