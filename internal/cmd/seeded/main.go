// Command seeded writes an overlay for go build and go test -overlay, with which nothing in a bubble of package
// internal/bubble is random: the order of goroutines, the choice of select, timers of the same time, maps and mutexes
// follow from the seed. It copies the files concerned of a Go installation, with a few lines changed, into the folder
// given, and prints the path of the overlay.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: seeded GOROOT FOLDER")
		os.Exit(2)
	}
	overlay, err := writeOverlay(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
	fmt.Println(overlay)
}

// change replaces text, which a file has exactly once.
type change struct{ file, old, new string }

// changes are those of package runtime of Go 1.26.
var changes = []change{
	// the keys of all hashes, so that maps with the same keys have the same order in each process
	{"rand.go", "\tglobalRand.state.Init(*seed)\n", "\tclear(seed[:])\n\tglobalRand.state.Init(*seed)\n"},
	// what maps, math/rand/v2 and hash/maphash draw
	{"rand.go", "func rand() uint64 {\n", "func rand() uint64 {\n" +
		"\tif bubbleSeed != 0 && getg().bubble != nil {\n\t\treturn bubbleRand()\n\t}\n"},
	{"rand.go", "// bootstrapRand returns", source + "\n// bootstrapRand returns"},
	{"select.go", "j := cheaprandn(uint32(norder + 1))",
		"j := uint32(uint64(seededRand()) * uint64(norder+1) >> 32)"},
	{"sema.go", "s.ticket = cheaprand() | 1", "s.ticket = seededRand() | 1"},
	{"time.go", "t.rand = cheaprand()", "t.rand = seededRand()"},
	// a mutex is handed over after 1 ms: of the bubble's time
	{"sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n" +
		"\tif b := getg().bubble; b != nil {\n\t\treturn b.now\n\t}\n"},
	// no goroutine is interrupted, however slow the machine is
	{"proc.go", "const forcePreemptNS = 10 * 1000 * 1000 // 10ms", "const forcePreemptNS = 3600 * 1000 * 1000 * 1000"},
	// a goroutine that has become ready runs next, or after the others
	{"proc.go", "	if randomizeScheduler && next && randn(2) == 0 {",
		"	if bubbleSeed != 0 && gp.bubble != nil && next && bubbleRand()&1 == 0 {"},
}

// source draws random numbers (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014).
const source = `var bubbleSeed uint64 // 0: nothing follows from a seed

//go:linkname setBubbleSeed
func setBubbleSeed(seed uint64) { bubbleSeed = seed }

//go:nosplit
func bubbleRand() uint64 {
	bubbleSeed += 0x9e3779b97f4a7c15
	z := bubbleSeed
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

//go:nosplit
func seededRand() uint32 {
	if bubbleSeed != 0 && getg().bubble != nil {
		return uint32(bubbleRand())
	}
	return cheaprand()
}
`

func writeOverlay(goroot, folder string) (path string, err error) {
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	if err = os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	texts, err := changedFiles(filepath.Join(goroot, "src", "runtime"))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for original, text := range texts {
		replace[original] = filepath.Join(folder, filepath.Base(original))
		if err = os.WriteFile(replace[original], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	overlay, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o644)
}

// changedFiles returns the changed texts of the files in a folder, by path.
func changedFiles(folder string) (map[string]string, error) {
	texts := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(folder, c.file)
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], c.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, not once: adapt the changes in internal/cmd/seeded",
				path, c.old, n)
		}
		texts[path] = strings.Replace(texts[path], c.old, c.new, 1)
	}
	return texts, nil
}
