package hub

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// remoteFile is a file in the hub's listing.
type remoteFile struct {
	name   string // path inside the repository
	size   int64  // bytes
	sha256 string // 64 hexadecimal digits; "" where unknown
}

// preferred lists the quantisations to choose if no file is named, best first: nearly exact and fast, then small, then
// exact.
var preferred = []string{"Q8_0", "Q4_K_M", "Q4_0", "F16"}

func chooseModel(r Ref, listed []remoteFile) ([]remoteFile, error) {
	models := groupModels(listed)
	if len(models) == 0 {
		return nil, errors.New("the repository holds no GGUF model: choose one with GGUF files")
	}
	if r.Quant != "" {
		return chooseByQuant(r, models)
	}
	if len(models) == 1 {
		return models[0], nil
	}
	for _, kind := range preferred {
		fit := slices.DeleteFunc(slices.Clone(models), func(m []remoteFile) bool {
			return parseQuant(m[0].name) != kind
		})
		if len(fit) == 1 {
			return fit[0], nil
		}
		if len(fit) > 1 {
			break // several of the best kind: the user has to choose
		}
	}
	return nil, choiceError(r, "which of its files is wanted", models)
}

func chooseByQuant(r Ref, models [][]remoteFile) ([]remoteFile, error) {
	fit := filterByQuant(models, r.Quant, func(m []remoteFile) string { return m[0].name })
	switch len(fit) {
	case 0:
		return nil, choiceError(r, "it has no file of the quantisation "+r.Quant, models)
	case 1:
		return fit[0], nil
	}
	return nil, choiceError(r, "several of its files are of the quantisation "+r.Quant, fit)
}

// filterByQuant returns the models with the quantisation in their file names; if there are none, those with UD- before
// it.
func filterByQuant[M any](models []M, quant string, file func(M) string) (fit []M) {
	for _, wanted := range []string{quant, "UD-" + quant} {
		for _, m := range models {
			if parseQuant(file(m)) == wanted {
				fit = append(fit, m)
			}
		}
		if len(fit) > 0 {
			break
		}
	}
	return fit
}

// quantWord matches the names of quantisations in file names, with the delimiters before and after them.
var quantWord = regexp.MustCompile(
	`(?i)(?:^|[^a-z0-9_])((?:ud-)?(?:i?q[1-8]_[a-z0-9_]+|i?q8|tq[12]_0|mxfp4(?:_moe)?|` +
		`b?f16|fp16|f32|fp32))(?:[^a-z0-9_]|$)`)

// parseQuant returns the quantisation in a file's name, in upper case, or in the name of its folder; "" if neither has
// one. If a name has several, the last one counts.
func parseQuant(name string) string {
	for _, part := range []string{path.Base(name), path.Base(path.Dir(name))} {
		last, next := "", quantWord.FindStringSubmatchIndex
		for found := next(part); found != nil; found = next(part) {
			last, part = part[found[2]:found[3]], part[found[3]:] // the delimiter may also begin the next match
		}
		if last != "" {
			return strings.ToUpper(last)
		}
	}
	return ""
}

func findNamedFile(r Ref, listed []remoteFile) ([]remoteFile, error) {
	all := groupModels(listed)
	for _, m := range all {
		if m[0].name == parseSplitName(r.File).partName(1) {
			return m, nil
		}
	}
	return nil, choiceError(r, "there is no file "+errs.Quote(r.File), all)
}

// groupModels groups a listing by model, in the order of names: a plain file alone, a split one with all its parts.
// Files that are not language models, and splits with a missing part, are left out.
func groupModels(listed []remoteFile) [][]remoteFile {
	files, here := make(map[string]remoteFile, len(listed)), map[splitFileName]int{}
	for _, l := range listed {
		files[l.name] = l
	}
	for name := range files {
		here[parseSplitName(name)]++
	}
	var found [][]remoteFile
	for name, l := range files {
		s := parseSplitName(name)
		if s.count > 1 && (here[s] < s.count || name != s.partName(1)) || !isGGUF(name) ||
			strings.HasPrefix(strings.ToLower(path.Base(name)), "mmproj") {
			continue
		}
		parts := []remoteFile{l}
		for i := 2; i <= s.count; i++ {
			parts = append(parts, files[s.partName(i)])
		}
		found = append(found, parts)
	}
	slices.SortFunc(found, func(a, b []remoteFile) int { return strings.Compare(a[0].name, b[0].name) })
	return found
}

// splitFileName is the common part of the names of a split file: BASE-00001-of-00003.gguf. Parts count from 1. For a
// single file, count is 1 and base its name.
type splitFileName struct {
	base, end string
	count     int
}

// splitName matches the names of split files.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.[gG][gG][uU][fF])$`)

// maxParts is more than the number of parts of any split model. A name with a larger number is that of a single file.
const maxParts = 1 << 12

func parseSplitName(name string) splitFileName {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return splitFileName{base: name, count: 1}
	}
	i, _ := strconv.Atoi(m[2]) // five digits
	n, _ := strconv.Atoi(m[3])
	if i < 1 || i > n || n < 2 || n > maxParts {
		return splitFileName{base: name, count: 1}
	}
	return splitFileName{m[1], m[4], n}
}

func (s splitFileName) partName(i int) string {
	if s.count == 1 {
		return s.base
	}
	return fmt.Sprintf("%s-%05d-of-%05d%s", s.base, i, s.count, s.end)
}

func totalSize(files []remoteFile) (total int64) {
	for _, f := range files {
		total += f.size
	}
	return total
}

func displayName(name string) string {
	if q := errs.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

func choiceError(r Ref, what string, models [][]remoteFile) error {
	const most = 40
	var b strings.Builder
	b.WriteString(what)
	b.WriteString("; there are:")
	for i, m := range models {
		if i == most {
			fmt.Fprintf(&b, "\n  and %d more", len(models)-most)
			break
		}
		r.File = m[0].name
		fmt.Fprintf(&b, "\n  %s  (%.1f MB)", displayName(r.String()), float64(totalSize(m))/1e6)
	}
	if len(models) == 0 {
		b.WriteString(" no GGUF models at all")
	}
	return errors.New(b.String())
}
