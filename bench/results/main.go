// Results writes the tables and figures of README.md and docs/results.md from the measurements in docs/results, and
// repeats the measurements. It runs in a checkout:
//
//	go run ./bench/results                        write the blocks between the markers of the pages, and the figures
//	go run ./bench/results study FOLDER [NAME...] measure on this machine, and compare with docs/results
//	go run ./bench/results real FOLDER MODELS [NAME...]
//	                                              the same for the real pair, with its files in MODELS; takes hours
//	go run ./bench/results adopt FOLDER           copy the measurements of a study to docs/results, write the pages
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

// kept is the folder of committed measurements and figures.
const kept = "docs/results"

// pages returns the pages with markers.
func pages() []string { return []string{"README.md", "docs/results.md", "docs/measuring.md"} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	root, err := checkout()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return write(root)
	case args[0] == "study" && len(args) > 1:
		return study(ctx, root, args[1], args[2:])
	case args[0] == "real" && len(args) > 2:
		return realPair(ctx, root, args[1], args[2], args[3:])
	case args[0] == "adopt" && len(args) == 2:
		if err := adopt(root, args[1]); err != nil {
			return err
		}
		return write(root)
	}
	return fmt.Errorf("unknown command %q: give nothing, study FOLDER [NAME...], real FOLDER MODELS [NAME...], "+
		"or adopt FOLDER", args)
}

// checkout returns the folder of go.mod: the working directory or one above.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in this folder or above: run this in a checkout")
		}
	}
}
