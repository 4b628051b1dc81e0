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

// remote is a file in the hub's listing.
type remote struct {
	name   string // path inside the repository
	size   int64  // bytes
	sha256 string // 64 hexadecimal digits; "" where unknown
}

// preferred lists the quantisations to choose if no file is named, best first: nearly exact and fast, then small, then
// exact.
var preferred = []string{"Q8_0", "Q4_K_M", "Q4_0", "F16"}

// choose picks the file, with all its parts, from a listing: the one of the most preferred type, or the only one.
func choose(r Ref, listed []remote) ([]remote, error) {
	models := models(listed)
	if len(models) == 0 {
		return nil, errors.New("the repository holds no GGUF model: choose one with GGUF files")
	}
	if r.Quant != "" {
		return chooseQuant(r, models)
	}
	if len(models) == 1 {
		return models[0], nil
	}
	for _, kind := range preferred {
		fit := slices.DeleteFunc(slices.Clone(models), func(m []remote) bool { return quantOf(m[0].name) != kind })
		if len(fit) == 1 {
			return fit[0], nil
		}
		if len(fit) > 1 {
			break // several of the best kind: the user has to choose
		}
	}
	return nil, choiceError(r, "which of its files is wanted", models)
}

// chooseQuant picks the model of the quantisation that r names.
func chooseQuant(r Ref, models [][]remote) ([]remote, error) {
	fit := withQuant(models, r.Quant, func(m []remote) string { return m[0].name })
	switch len(fit) {
	case 0:
		return nil, choiceError(r, "it has no file of the quantisation "+r.Quant, models)
	case 1:
		return fit[0], nil
	}
	return nil, choiceError(r, "several of its files are of the quantisation "+r.Quant, fit)
}

// withQuant returns the models with the quantisation in their file names; if there are none, those with UD- before it.
func withQuant[M any](models []M, quant string, file func(M) string) (fit []M) {
	for _, wanted := range []string{quant, "UD-" + quant} {
		for _, m := range models {
			if quantOf(file(m)) == wanted {
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

// quantOf returns the quantisation in a file's name, in upper case, or in the name of its folder; "" if neither has
// one. If a name has several, the last one counts.
func quantOf(name string) string {
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

// named returns the file that r names, with all its parts.
func named(r Ref, listed []remote) ([]remote, error) {
	all := models(listed)
	for _, m := range all {
		if m[0].name == splitOf(r.File).part(1) {
			return m, nil
		}
	}
	return nil, choiceError(r, "there is no file "+errs.Quote(r.File), all)
}

// models groups a listing by model, in the order of names: a plain file alone, a split one with all its parts. Files
// that are not language models, and splits with a missing part, are left out.
func models(listed []remote) [][]remote {
	files, here := make(map[string]remote, len(listed)), map[split]int{}
	for _, l := range listed {
		files[l.name] = l
	}
	for name := range files {
		here[splitOf(name)]++
	}
	var found [][]remote
	for name, l := range files {
		s := splitOf(name)
		if s.count > 1 && (here[s] < s.count || name != s.part(1)) || !isGGUF(name) ||
			strings.HasPrefix(strings.ToLower(path.Base(name)), "mmproj") {
			continue
		}
		parts := []remote{l}
		for i := 2; i <= s.count; i++ {
			parts = append(parts, files[s.part(i)])
		}
		found = append(found, parts)
	}
	slices.SortFunc(found, func(a, b []remote) int { return strings.Compare(a[0].name, b[0].name) })
	return found
}

// split is the common part of the names of a split file: BASE-00001-of-00003.gguf. For a single file, count is 1 and
// base its name.
type split struct {
	base, end string
	count     int
}

// splitName matches the names of split files.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.[gG][gG][uU][fF])$`)

// maxParts is more than the number of parts of any split model. A name with a larger number is that of a single file.
const maxParts = 1 << 12

func splitOf(name string) split {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return split{base: name, count: 1}
	}
	i, _ := strconv.Atoi(m[2]) // five digits
	n, _ := strconv.Atoi(m[3])
	if i < 1 || i > n || n < 2 || n > maxParts {
		return split{base: name, count: 1}
	}
	return split{m[1], m[4], n}
}

// part returns the name of the i-th part, from 1 on.
func (s split) part(i int) string {
	if s.count == 1 {
		return s.base
	}
	return fmt.Sprintf("%s-%05d-of-%05d%s", s.base, i, s.count, s.end)
}

func totalSize(files []remote) (total int64) {
	for _, f := range files {
		total += f.size
	}
	return total
}

// shown returns a name, or, if it is long or not printable, the beginning of it in quotes.
func shown(name string) string {
	if q := errs.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

func choiceError(r Ref, what string, models [][]remote) error {
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
		fmt.Fprintf(&b, "\n  %s  (%.1f MB)", shown(r.String()), float64(totalSize(m))/1e6)
	}
	if len(models) == 0 {
		b.WriteString(" no GGUF models at all")
	}
	return errors.New(b.String())
}
