// Command figures prints the size of the project and figures of its style: lines, packages, and words that its prose
// should avoid. Run it in the root folder: go run ./internal/layering/figures
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

// goPackage has the fields of go list that are used.
type goPackage struct {
	ImportPath, Dir, Name string
	GoFiles, CgoFiles     []string
	IgnoredGoFiles        []string // for other systems
	TestGoFiles           []string
	XTestGoFiles          []string
	Imports               []string
	TestImports           []string
	XTestImports          []string
}

// size is a package with its numbers of lines.
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
	var text strings.Builder // of all files written by hand
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

// measure counts lines and importers. It writes the contents of non-test files to text.
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

// generated reports whether a file is marked as generated before its package clause.
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

// maxLines is the recommended maximum of lines in a package.
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

// printList prints the number of entries of a list, and the entries.
func printList(all []string, what string) {
	fmt.Printf("%7d %s\n", len(all), what)
	for _, one := range all {
		fmt.Printf("        %s\n", one)
	}
}

var (
	// bounds are names of limits that avoid the usual max and min.
	bounds = regexp.MustCompile(`\b(?:most|least)[A-Z]\w*`)
	usual  = regexp.MustCompile(`\b(?:max|min)[A-Z]\w*`)
)

// words are words of a dialect that is hard to read.
var words = []string{"alike", "so many", "whose", "told", "nobody", "behind"}

// printWords prints how often names and words occur in the source: different names, and occurrences of words.
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
