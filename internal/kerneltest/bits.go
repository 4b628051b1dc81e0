package kerneltest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Hash returns the first digits of a hash of the bits of values: numbers and slices of numbers.
func Hash(t testing.TB, values ...any) string {
	t.Helper()
	h := sha256.New()
	for _, v := range values {
		if err := binary.Write(h, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%.8x", h.Sum(nil))
}

// HoldBits compares lines with the table in file. Each line is a name and a [Hash] of results of one instruction set.
// The table shows that a refactoring of a kernel changes no result, and makes intended changes visible in review. With
// update it writes the lines to the table instead. Lines of other instruction sets stay.
func HoldBits(t testing.TB, file, set string, lines []string, update bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !update {
		t.Fatal(err)
	}
	table := slices.Collect(strings.Lines(string(text)))
	if update {
		table = slices.DeleteFunc(table, func(l string) bool { return strings.HasPrefix(l, set+" ") })
		at, _ := slices.BinarySearchFunc(table, set+" ", func(l, set string) int {
			first, _, _ := strings.Cut(l, " ")
			return strings.Compare(first+" ", set)
		})
		for i, l := range lines {
			table = slices.Insert(table, at+i, set+" "+l+"\n")
		}
		if err := os.WriteFile(file, []byte(strings.Join(table, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, l := range lines {
		if !slices.Contains(table, set+" "+l+"\n") {
			t.Errorf("%s has no line %q; if that is intended, run go test . -run Bits -update", file, set+" "+l)
		}
	}
}
