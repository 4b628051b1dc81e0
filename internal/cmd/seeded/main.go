// Command seeded writes an overlay for go build and go test -overlay, with which nothing in a bubble of package
// internal/bubble is random: the order of goroutines, the choice of select, timers of the same time, maps and mutexes
// follow from the seed. It copies the files concerned of the Go installation, with a few lines changed, into the folder
// given, and prints the path of the overlay.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: seeded FOLDER")
		os.Exit(2)
	}
	overlay, err := writeOverlay(os.Args[1])
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

func writeOverlay(folder string) (path string, err error) {
	folder, err = filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if err = os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	from := filepath.Join(strings.TrimSpace(string(root)), "src", "runtime")
	replace := map[string]string{}
	for _, c := range changes {
		original, to := filepath.Join(from, c.file), filepath.Join(folder, c.file)
		if err = c.apply(original, to, replace[original] != ""); err != nil {
			return "", err
		}
		replace[original] = to
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}

// apply writes the changed file. If it has been changed before, it is changed further.
func (c change) apply(original, to string, again bool) error {
	if again {
		original = to
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), c.old); n != 1 {
		return fmt.Errorf("%s of %s has %q %d times, not once: adapt the changes in internal/cmd/seeded",
			original, runtime.Version(), c.old, n)
	}
	return os.WriteFile(to, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o644)
}
