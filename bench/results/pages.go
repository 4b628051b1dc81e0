package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// changedBlock is the name of the block that lists the packages that have changed since: it depends on the checkout.
const changedBlock = "changed"

// marked matches a block of a page: the text between its markers. A block within a line has no line feeds around it.
func marked() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<!-- results:([a-z0-9-]+) -->(.*?)<!-- /results -->`)
}

// filled returns a page with its blocks replaced by the current ones. An unknown block is an error.
func filled(page string, blocks map[string]string) (string, error) {
	var wrong error
	text := marked().ReplaceAllStringFunc(page, func(all string) string {
		m := marked().FindStringSubmatch(all)
		content, known := blocks[m[1]]
		if !known {
			wrong = fmt.Errorf("unknown block %q: its measurement may be missing in %s", m[1], kept)
		}
		if strings.HasPrefix(m[2], "\n") {
			content = "\n" + strings.TrimRight(content, "\n") + "\n"
		}
		return "<!-- results:" + m[1] + " -->" + content + "<!-- /results -->"
	})
	if n := strings.Count(page, "<!-- results:"); wrong == nil && n != len(marked().FindAllString(page, -1)) {
		wrong = errors.New("a marker <!-- results:NAME --> lacks its <!-- /results -->")
	}
	return text, wrong
}

// measured returns the stored lines of an experiment, nil if there are none.
func measured(root, name string) ([]result.Record, error) {
	records, err := result.ReadFile(keptFile(root, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return records, err
}

// blocks returns all blocks of the pages by name, and the figures by the names of their files.
func blocks(root string) (texts map[string]string, figures map[string][]byte, err error) {
	texts, figures = map[string]string{}, map[string][]byte{}
	makers := map[string]func(*made) error{
		"demo": (*made).demo, "rtt": (*made).sweep, "stories": (*made).stories, "engine": (*made).engine,
		"gateway": (*made).gateway, "link": (*made).link, "real-times": (*made).realTimes,
	}
	for _, name := range slices.Sorted(maps.Keys(makers)) {
		records, err := measured(root, name)
		if err != nil {
			return nil, nil, err
		}
		if records == nil {
			continue
		}
		m := &made{name: name, records: records, texts: texts, figures: figures}
		if err := makers[name](m); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		texts[name+"-about"] = about(&records[0].Run)
		if s := sourcesText(&records[0].Run); s != "" {
			texts[name+"-sources"] = s
		}
	}
	return texts, figures, realBlocks(root, texts)
}

// made is the output for an experiment.
type made struct {
	name    string
	records []result.Record
	texts   map[string]string
	figures map[string][]byte
}

// draw makes the figures with these endings of their names, and the text that shows each.
func (m *made) draw(endings ...string) error {
	r, err := report.New(m.records)
	if err != nil {
		return err
	}
	pictures := r.Pictures()
	for _, which := range endings {
		i := slices.IndexFunc(pictures, func(p report.Drawing) bool { return strings.HasSuffix(p.Name, which) })
		if i < 0 {
			return fmt.Errorf("no picture %s", which)
		}
		file := m.name + "-" + which + ".svg"
		m.figures[file] = pictures[i].Picture.SVG()
		m.texts[m.name+"-"+which] = fmt.Sprintf("![%s](results/%s)", pictures[i].Caption, file)
	}
	return nil
}

// about describes the program and the machine of a measurement.
func about(r *result.Run) string {
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
	return wrapped(text + fmt.Sprintf("; load in the minute before: %.1f.", m.Load))
}

// shortVersion returns a release, or the beginning of a revision, with "+dirty" if files differed from it.
func shortVersion(version string) string {
	if m := regexp.MustCompile(`^([0-9a-f]{12})[0-9a-f]{28}(\+dirty)?$`).FindStringSubmatch(version); m != nil {
		return m[1] + m[2]
	}
	return version
}

// sourcesText lists the measured packages with the beginnings of their hashes, "" if they are unknown.
func sourcesText(r *result.Run) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Sources)) {
		all = append(all, fmt.Sprintf("%s %.6s", name, r.Sources[name]))
	}
	if len(all) == 0 {
		return ""
	}
	return wrapped("Sources: " + strings.Join(all, ", ") + ".")
}

// wrapped wraps text at 120 characters, as far as its words allow.
func wrapped(text string) string {
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

// changed lists the measured packages that differ from those of the stored measurements.
func changed(root string) (string, error) {
	now, err := sources(root)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, e := range allExperiments() {
		records, err := measured(root, e.name)
		if err != nil {
			return "", err
		}
		if records == nil {
			continue
		}
		var others []string
		for _, name := range slices.Sorted(maps.Keys(records[0].Run.Sources)) {
			if records[0].Run.Sources[name] != now[name] {
				others = append(others, name)
			}
		}
		switch {
		case len(records[0].Run.Sources) == 0:
			lines = append(lines, fmt.Sprintf("- %s: it is not known of which sources", e.name))
		case len(others) > 0:
			lines = append(lines, fmt.Sprintf("- %s: %s", e.name, strings.Join(others, ", ")))
		default:
			lines = append(lines, fmt.Sprintf("- %s: nothing", e.name))
		}
	}
	return "Of the measured packages, these have changed since, when this page was last written:\n\n" +
		strings.Join(lines, "\n"), nil
}

// write writes the pages and the figures. It removes figures that are no longer made.
func write(root string) error {
	texts, figures, err := blocks(root)
	if err != nil {
		return err
	}
	if texts[changedBlock], err = changed(root); err != nil {
		return err
	}
	for _, page := range pages() {
		path := filepath.Join(root, page)
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := filled(string(before), texts)
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
		if figures[filepath.Base(path)] == nil {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for name, b := range figures {
		if err := os.WriteFile(filepath.Join(root, kept, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
