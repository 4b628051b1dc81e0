package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// blockPattern matches a block of a page: the text between its markers. A block within a line has no line feeds around
// it.
func blockPattern() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<!-- results:([a-z0-9-]+) -->(.*?)<!-- /results -->`)
}

// fillBlocks returns a page with its blocks replaced by the current ones. An unknown block is an error.
func fillBlocks(page string, blocks map[string]string) (string, error) {
	var wrong error
	text := blockPattern().ReplaceAllStringFunc(page, func(all string) string {
		m := blockPattern().FindStringSubmatch(all)
		content, known := blocks[m[1]]
		if !known {
			wrong = fmt.Errorf("unknown block %q: its measurement may be missing in %s", m[1], kept)
		}
		if strings.HasPrefix(m[2], "\n") {
			content = "\n" + strings.TrimRight(content, "\n") + "\n"
		}
		return "<!-- results:" + m[1] + " -->" + content + "<!-- /results -->"
	})
	if n := strings.Count(page, "<!-- results:"); wrong == nil && n != len(blockPattern().FindAllString(page, -1)) {
		wrong = errors.New("a marker <!-- results:NAME --> lacks its <!-- /results -->")
	}
	return text, wrong
}

// readMeasurement returns the stored lines of an experiment, nil if there are none.
func readMeasurement(root, name string) ([]result.Record, error) {
	records, err := result.ReadFile(keptFile(root, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return records, err
}

func measurementNames() []string {
	return []string{"demo", "rtt", "engine", "gateway", "link", "real-times"}
}

// pageContent is what is made of the measurements: blocks of the pages by name, and figures by the names of their
// files.
type pageContent struct {
	texts   map[string]string
	figures map[string][]byte
}

func newPageContent(root string) (*pageContent, error) {
	m := &pageContent{texts: map[string]string{}, figures: map[string][]byte{}}
	for _, name := range measurementNames() {
		records, err := readMeasurement(root, name)
		if err != nil {
			return nil, err
		}
		if records == nil {
			continue
		}
		if err := m.addTable(name, records); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.texts[name+"-about"] = aboutText(&records[0].Run)
	}
	return m, m.addAnswerTables(root)
}

func (m *pageContent) addPictures(name string, all []report.Picture, which ...string) error {
	for _, w := range which {
		i := slices.IndexFunc(all, func(p report.Picture) bool { return p.Name == w })
		if i < 0 {
			return fmt.Errorf("no picture %s", w)
		}
		file := name + "-" + w + ".svg"
		m.figures[file] = all[i].SVG
		m.texts[name+"-"+w] = fmt.Sprintf("![%s](../results/%s)", all[i].Caption, file)
	}
	return nil
}

func aboutText(r *record.Run) string {
	m := r.Machine
	virtual := ""
	if m.VirtualCPU {
		virtual = "virtual, "
	}
	text := fmt.Sprintf("`%s`, %s, pilotfish %s; %s%s, %d cores, kernels %s", r.Command,
		r.Date.Format("2 January 2006"), shortVersion(r.Version), virtual, m.CPU, m.Cores, m.Kernels)
	if m.Bandwidth > 0 {
		text += fmt.Sprintf(", memory %.0f GB/s", m.Bandwidth)
	}
	return wrapText(text + fmt.Sprintf("; load in the minute before: %.1f.", m.Load))
}

// shortVersion returns a release, or the beginning of a revision, with "+dirty" if files differed from it.
func shortVersion(version string) string {
	if m := regexp.MustCompile(`^([0-9a-f]{12})[0-9a-f]{28}(\+dirty)?$`).FindStringSubmatch(version); m != nil {
		return m[1] + m[2]
	}
	return version
}

func wrapText(text string) string {
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case line+1+n > 120:
			b.WriteString("\n")
			line = 0
		default:
			b.WriteString(" ")
			line++
		}
		b.WriteString(word)
		line += n
	}
	return b.String()
}

// writePages writes the pages and the figures. It removes figures that are no longer made.
func writePages(root string) error {
	m, err := newPageContent(root)
	if err != nil {
		return err
	}
	for _, page := range pageFiles() {
		path := filepath.Join(root, page)
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := fillBlocks(string(before), m.texts)
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			return err
		}
	}
	old, err := filepath.Glob(filepath.Join(root, kept, "*.svg"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if m.figures[filepath.Base(path)] == nil {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for name, b := range m.figures {
		if err := os.WriteFile(filepath.Join(root, kept, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
