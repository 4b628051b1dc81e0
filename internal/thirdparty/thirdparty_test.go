package thirdparty

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write THIRD_PARTY.md as it should be now")

const page = "../../THIRD_PARTY.md"

// module is a linked module, with the licences in its files.
type module struct {
	path, version, dir string
	systems            map[string]bool
	files              map[string]bool // licence files of the module and of the linked packages
}

// TestPage: THIRD_PARTY.md lists every module that the programs link on some system, and every library of its pages,
// with its licence.
func TestPage(t *testing.T) {
	want := render(t, append(linked(t), embedded(t, "markdown-it", "15.0.3")))
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	have, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.True(t, string(have) == want,
		"THIRD_PARTY.md differs from the linked modules: go test ./internal/thirdparty -update, and git diff")
}

// linked returns the modules that the programs link on each kind of system, from go list.
func linked(t *testing.T) []*module {
	t.Helper()
	systems := []string{"linux/amd64", "linux/arm64", "darwin/arm64", "darwin/amd64", "windows/amd64", "windows/arm64"}
	outputs := make([]string, len(systems))
	var all sync.WaitGroup
	for i, system := range systems {
		all.Go(func() {
			goos, goarch, _ := strings.Cut(system, "/")
			cmd := exec.Command("go", "list", "-deps", "-f",
				"{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{end}}{{.Dir}}", "./cmd/pilotfish",
				"./cmd/pilotfish-bench")
			cmd.Dir = "../.."
			cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			assert.NoError(t, err, "%s: %s", system, stderr.String())
			outputs[i] = string(out)
		})
	}
	all.Wait()
	modules := map[string]*module{}
	for i, out := range outputs {
		goos, _, _ := strings.Cut(systems[i], "/")
		for line := range strings.Lines(out) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) != 4 || f[1] == "" { // of the standard library, or of this module
				continue
			}
			m := modules[f[0]]
			if m == nil {
				m = &module{path: f[0], version: f[1], dir: f[2], systems: map[string]bool{}, files: map[string]bool{}}
				modules[f[0]] = m
			}
			m.systems[goos] = true
			m.add(t, f[3])
		}
	}
	require.Greater(t, len(modules), 10)
	return slices.SortedFunc(maps.Values(modules), func(a, b *module) int { return cmp.Compare(a.path, b.path) })
}

// embedded returns a library in a page of the program: its folder has its licences and those of its parts.
func embedded(t *testing.T, name, version string) *module {
	m := &module{path: name, version: "v" + version, dir: "../../serve/page/" + name + "-" + version,
		systems: map[string]bool{"all": true}, files: map[string]bool{}}
	m.add(t, m.dir)
	return m
}

// add records the licence files in the folder of a package and its parents in the module.
func (m *module) add(t *testing.T, dir string) {
	t.Helper()
	for {
		for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*", "PATENTS*", "THIRD_PARTY_LICENSES/*"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			require.NoError(t, err)
			for _, f := range found {
				if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
					m.files[f] = true
				}
			}
		}
		if dir == m.dir || len(dir) < len(m.dir) {
			return
		}
		dir = filepath.Dir(dir)
	}
}

// licences identifies the licences in a text, by phrases unique to each.
func licences(text string) (all []string) {
	text = strings.Join(strings.Fields(text), " ")
	for _, known := range []struct{ name, words, without string }{
		{"Apache-2.0", "Apache License Version 2.0, January 2004", ""},
		{"Apache-2.0", "Licensed under the Apache License, Version 2.0", ""},
		{"MPL-2.0", "Mozilla Public License, version 2.0", ""},
		{"BSD-3-Clause", "endorse or promote products derived", ""},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms, with or without", "endorse or promote"},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", ""},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose", ""},
	} {
		has := strings.Contains(text, known.words) && (known.without == "" || !strings.Contains(text, known.without))
		if has && !slices.Contains(all, known.name) {
			all = append(all, known.name)
		}
	}
	return all
}

// render returns the page.
func render(t *testing.T, modules []*module) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Third-party notices

The program *pilotfish* contains code of the modules below, and its chat page of a library, under their licences. A
program that embeds Pilotfish contains some of the modules; *go version -m PROGRAM* lists which. *go test
./internal/thirdparty -update* writes this page.

| module | version | licence | systems |
|---|---|---|---|
`)
	texts := map[string][]string{} // owners by text
	for _, m := range modules {
		var names []string
		for _, file := range slices.Sorted(maps.Keys(m.files)) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			text := tidy(string(raw))
			name, err := filepath.Rel(m.dir, file)
			require.NoError(t, err)
			texts[text] = append(texts[text], m.path+"/"+filepath.ToSlash(name))
			for _, kind := range licences(text) {
				if !slices.Contains(names, kind) {
					names = append(names, kind)
				}
			}
		}
		require.NotEmpty(t, names, "%s %s has no licence that this test knows, in %v", m.path, m.version, m.files)
		systems := "all"
		if len(m.systems) < 3 {
			systems = strings.Join(slices.Sorted(maps.Keys(m.systems)), ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.path, m.version, strings.Join(names, ", "), systems)
	}
	b.WriteString("\nThe program also contains parts of the Go standard library and runtime, under the text of " +
		"golang.org/x/sys/LICENSE.\n\n## Texts\n")
	byOwner := func(a, b string) int { return cmp.Compare(texts[a][0], texts[b][0]) }
	for _, text := range slices.SortedFunc(maps.Keys(texts), byOwner) {
		b.WriteString("\n### " + texts[text][0] + "\n\n")
		if also := texts[text][1:]; len(also) > 0 {
			b.WriteString("Also " + strings.Join(also, ", ") + ".\n\n")
		}
		b.WriteString("```text\n" + text + "\n```\n")
	}
	return b.String()
}

// tidy removes meaningless differences between copies of a text.
func tidy(text string) string {
	var lines []string
	for s := bufio.NewScanner(strings.NewReader(strings.TrimPrefix(text, "\ufeff"))); s.Scan(); {
		lines = append(lines, strings.TrimRight(s.Text(), " \t\r"))
	}
	return strings.Trim(strings.ReplaceAll(strings.Join(lines, "\n"), "```", "'''"), "\n")
}

// TestLicences: each licence is distinguished, and several in one text are all found.
func TestLicences(t *testing.T) {
	const redistribution = "Redistribution and use in source and binary forms, with or\nwithout modification "
	const mit = "Permission is hereby granted, free of charge, to any person obtaining\na copy of this software"
	for text, want := range map[string][]string{
		"Apache License\n   Version 2.0, January 2004":                       {"Apache-2.0"},
		"Licensed under the Apache License, Version 2.0\n" + mit:             {"Apache-2.0", "MIT"},
		"Mozilla Public License, version 2.0":                                {"MPL-2.0"},
		redistribution + "… be used to endorse or promote products\nderived": {"BSD-3-Clause"},
		redistribution + "provided that …":                                   {"BSD-2-Clause"},
		mit:                                                                  {"MIT"},
		"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee": {"ISC"},
		"All rights reserved.": nil,
	} {
		assert.Equal(t, want, licences(text), text)
	}
}
