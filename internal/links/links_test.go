package links

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// pages returns the Markdown files in a folder tree, by slash-separated paths from the folder.
func pages(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 1 && d.Name()[0] == '.') {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" {
			all = append(all, name)
		}
		return err
	}))
	return all
}

// wrong returns the broken links of a page.
func wrong(t *testing.T, dir, page string) (all []string) {
	t.Helper()
	text := read(t, dir, page)
	for _, target := range targets(text) {
		if why := follow(t, dir, page, target); why != "" {
			all = append(all, page+": "+target+": "+why)
		}
	}
	for _, name := range named(text) {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			all = append(all, page+": `"+name+"`: no such file or folder")
		}
	}
	return all
}

func read(t *testing.T, dir, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(page)))
	require.NoError(t, err)
	return string(b)
}

// prose returns a page without its blocks of code.
func prose(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
}

// targets returns the targets of links and pictures in a page, without other sites.
func targets(text string) (all []string) {
	text = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(prose(text), "")
	for _, link := range regexp.MustCompile(`\]\(\s*<?([^)\s>]+)`).FindAllStringSubmatch(text, -1) {
		if u, err := url.Parse(link[1]); err != nil || u.Scheme == "" {
			all = append(all, link[1])
		}
	}
	return all
}

// follow returns why a link of a page is broken, or "".
func follow(t *testing.T, dir, page, target string) string {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = path.Join(path.Dir(page), file)
	}
	if strings.HasPrefix(to, "../") || path.IsAbs(file) {
		return "outside the repository"
	}
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(to))); err != nil {
		return "no such file"
	}
	if anchor == "" || path.Ext(to) != ".md" {
		return ""
	}
	for _, h := range headings(read(t, dir, to)) {
		if h == anchor {
			return ""
		}
	}
	return "no such heading"
}

// headings returns the anchors of a page, as GitHub makes them.
func headings(text string) (all []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(prose(text), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, h[1])
		all = append(all, anchor)
	}
	return all
}

// named returns the files and folders of this repository that a page names as code, from the root on.
func named(text string) (all []string) {
	top := `(?:bench|cmd|docs|gguf|internal|kernels|metal|netproto|runtime)`
	for _, name := range regexp.MustCompile("`("+top+`(?:/[\w.-]+)+)`+"`").FindAllStringSubmatch(prose(text), -1) {
		all = append(all, name[1])
	}
	return all
}

// TestPages: all links of every page work.
func TestPages(t *testing.T) {
	all := pages(t, root)
	assert.Greater(t, len(all), 10)
	links := 0
	for _, page := range all {
		for _, w := range wrong(t, root, page) {
			t.Error(w)
		}
		links += len(targets(read(t, root, page)))
	}
	assert.Greater(t, links, 50)
}

// TestFaults: each kind of broken link is found, and valid ones are not.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("docs/b.md", "# Über `a_b`: what is (here)?\n\n```\n# no heading\n```\n")
	write("runtime/x.go", "")
	for text, want := range map[string]string{
		"[b](docs/b.md) [x](https://example.org/no) [m](mailto:a@example.org) ![p](runtime/x.go)": "",
		"[b](docs/b.md#über-a_b-what-is-here)":                                                    "",
		"[self](#top)\n# Top":                                                                     "",
		"`[no link](nowhere)` and `runtime/x.go`":                                                 "",
		"```\n[code](nowhere)\n```\n[b](docs/b.md)":                                               "",
		"[b](docs/c.md)":                               "no such file",
		"[b](docs/b.md#elsewhere)":                     "no such heading",
		"[b](docs/b.md#no-heading)":                    "no such heading",
		"[b](#elsewhere)":                              "no such heading",
		"[b](../a.md)":                                 "outside the repository",
		"[b](/docs/b.md)":                              "outside the repository",
		"![picture](docs/b.png)":                       "no such file",
		"[b](docs/b.md \"title\") [c](docs/c.md \"\")": "no such file",
		"see `runtime/y.go`":                           "no such file or folder",
	} {
		write("a.md", text)
		got := strings.Join(wrong(t, dir, "a.md"), "\n")
		if want == "" {
			assert.Empty(t, got, text)
			continue
		}
		assert.Regexp(t, want+"$", got, text)
	}
	write("docs/d.md", "[a](../a.md) [b](b.md)")
	assert.Empty(t, wrong(t, dir, "docs/d.md"))
	assert.ElementsMatch(t, []string{"a.md", "docs/b.md", "docs/d.md"}, pages(t, dir))
}
