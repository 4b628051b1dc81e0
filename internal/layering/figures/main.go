// Command figures prints how large the project is, and how it is written: lines, packages, and words that its prose
// should do without. Run it in the root folder: go run ./internal/layering/figures
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath, Dir, Name string
	GoFiles, CgoFiles     []string
	IgnoredGoFiles        []string // of other systems
	TestGoFiles           []string
	XTestGoFiles          []string
	Imports               []string
	TestImports           []string
	XTestImports          []string
}

// size is a package with its lines.
type size struct {
	goPackage
	lines, tests, importers int
}

func main() {
	log.SetFlags(0)
	packages, err := list()
	if err != nil {
		log.Fatal(err)
	}
	var text strings.Builder // of all files that are written by hand
	sizes, err := measure(packages, &text)
	if err != nil {
		log.Fatal(err)
	}
	printSizes(sizes)
	printWords(text.String())
}

// list returns the packages of the module.
func list() (all []goPackage, err error) {
	out, err := exec.Command("go", "list", "-json", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p goPackage
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// measure counts lines and importers. It writes the files that are no tests to text.
func measure(packages []goPackage, text io.Writer) (all []size, err error) {
	for _, p := range packages {
		one := size{goPackage: p}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
			b, err := os.ReadFile(filepath.Join(p.Dir, name))
			switch {
			case err != nil:
				return nil, err
			case generated(b):
			case strings.HasSuffix(name, "_test.go"):
				one.tests += bytes.Count(b, []byte("\n"))
			default:
				one.lines += bytes.Count(b, []byte("\n"))
				if _, err := text.Write(b); err != nil {
					return nil, err
				}
			}
		}
		for _, q := range packages {
			if slices.Contains(slices.Concat(q.Imports, q.TestImports, q.XTestImports), p.ImportPath) {
				one.importers++
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// generated reports whether a file says that it is, before its package clause.
func generated(file []byte) bool {
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "// Code generated ") {
			return true
		}
		if strings.HasPrefix(lines.Text(), "package ") {
			break
		}
	}
	return false
}

// maxLines is how many lines a package should have at most.
const maxLines = 4000

func printSizes(all []size) {
	lines, tests := 0, 0
	var large, lone []string
	for _, p := range all {
		lines, tests = lines+p.lines, tests+p.tests
		if p.lines > maxLines {
			large = append(large, fmt.Sprintf("%s %d", p.ImportPath, p.lines))
		}
		if files := len(p.GoFiles) + len(p.CgoFiles) + len(p.IgnoredGoFiles); files == 1 && p.importers == 1 {
			lone = append(lone, p.ImportPath)
		}
	}
	fmt.Printf("%7d lines of Go written by hand, without tests\n%7d lines of tests\n%7d packages\n", lines, tests,
		len(all))
	printList(large, "packages above 4,000 lines")
	printList(lone, "packages of one file with one importer")
}

// printList prints how many there are of something, and which.
func printList(all []string, what string) {
	fmt.Printf("%7d %s\n", len(all), what)
	for _, one := range all {
		fmt.Printf("        %s\n", one)
	}
}

var (
	// bounds are names of bounds in words that are not the usual ones.
	bounds = regexp.MustCompile(`\b(?:most|least)[A-Z]\w*`)
	usual  = regexp.MustCompile(`\b(?:max|min)[A-Z]\w*`)
)

// words are those of a dialect that is read twice.
var words = []string{"alike", "so many", "whose", "told", "nobody", "behind"}

// printWords prints how often something stands in source: different names, and occurrences of words.
func printWords(source string) {
	for _, r := range []*regexp.Regexp{bounds, usual} {
		names := map[string]bool{}
		for _, m := range r.FindAllString(source, -1) {
			names[m] = true
		}
		fmt.Printf("%7d different names like %s\n", len(names), r)
	}
	for _, word := range words {
		all := regexp.MustCompile(`\b`+word+`\b`).FindAllString(source, -1)
		fmt.Printf("%7d times %q\n", len(all), word)
	}
}
