// Command figures counts the names of the module's functions: how long they are, how many functions share one, and how
// many need a comment. It prints one row for each package (with -packages), and one for the module.
//
//	go run ./internal/layering/figures [-packages] [-shared] [FOLDER]
//
// A name's words are those of camel case; an abbreviation in capitals is one word. Tests, main and init do not count.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

func main() {
	packages := flag.Bool("packages", false, "also print each package")
	shared := flag.Bool("shared", false, "also print the names that five or more functions share")
	flag.Parse()
	root := cmp.Or(flag.Arg(0), ".")
	c, err := countNames(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c.printTable(*packages, *shared)
}

// counts are the counts of a package or of the module.
type counts struct {
	functions, oneWord, words, commented int
}

func (c counts) addCounts(d counts) counts {
	return counts{c.functions + d.functions, c.oneWord + d.oneWord, c.words + d.words, c.commented + d.commented}
}

// moduleNames are the counts of private functions by package, and of functions by private name.
type moduleNames struct {
	packages map[string]counts
	bearers  map[string]int
}

func countNames(root string) (moduleNames, error) {
	n := moduleNames{map[string]counts{}, map[string]int{}}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && path != root):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		n.countFile(filepath.ToSlash(filepath.Dir(path)), f)
		return nil
	})
	return n, err
}

func (n moduleNames) countFile(folder string, f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.IsExported() || fn.Name.Name == "main" || fn.Name.Name == "init" || fn.Name.Name == "_" {
			continue
		}
		n.bearers[fn.Name.Name]++
		c := counts{functions: 1, words: countWords(fn.Name.Name)}
		if c.words == 1 {
			c.oneWord = 1
		}
		if fn.Doc.Text() != "" { // not only a directive
			c.commented = 1
		}
		n.packages[folder] = n.packages[folder].addCounts(c)
	}
}

// countWords counts the words of a name: "parseHTTPRequest" has 3.
func countWords(name string) int {
	words := 1
	r := []rune(name)
	for i := 1; i < len(r); i++ {
		if unicode.IsUpper(r[i]) && (!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			words++
		}
	}
	return words
}

func (n moduleNames) printTable(packages, shared bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "private functions\tone word\twords a name\twith a comment\t\t")
	row := func(name string, c counts) {
		of := float64(max(c.functions, 1))
		fmt.Fprintf(w, "%d\t%.0f%%\t%.2f\t%.0f%%\t%s\t\n", c.functions, 100*float64(c.oneWord)/of,
			float64(c.words)/of, 100*float64(c.commented)/of, name)
	}
	var sum counts
	for _, p := range slices.Sorted(maps.Keys(n.packages)) {
		sum = sum.addCounts(n.packages[p])
		if packages {
			row(p, n.packages[p])
		}
	}
	row("the module", sum)
	w.Flush()
	names := n.sharedNames(5)
	functions := 0
	for _, name := range names {
		functions += n.bearers[name]
		if shared {
			fmt.Printf("%4d %s\n", n.bearers[name], name)
		}
	}
	fmt.Printf("%d names are shared by five or more functions each, %d together\n", len(names), functions)
}

// sharedNames returns the names that at least so many functions share, the commonest first.
func (n moduleNames) sharedNames(least int) []string {
	names := slices.Collect(maps.Keys(n.bearers))
	names = slices.DeleteFunc(names, func(s string) bool { return n.bearers[s] < least })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(n.bearers[b]-n.bearers[a], strings.Compare(a, b)) })
	return names
}
