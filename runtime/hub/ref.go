package hub

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Ref is the name of a model on the hub: OWNER/NAME[@REVISION][:FILE], or with :QUANT in place of the file.
type Ref struct {
	Owner, Name string // the repository
	Revision    string // branch, tag or commit
	File        string // path inside the repository; "" leaves the choice to Quant
	Quant       string // name of a quantisation in upper case, such as Q4_K_M; "" leaves the choice to Pull
}

// repoPart matches an owner or a name on the hub. It contains no slash and begins with no dot, so it is also a valid
// folder name.
var repoPart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}$`)

// quantName matches a quantisation in place of a file: it contains no dot, so that it is never the name of a file.
var quantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// forms is the form of a model's name, for messages.
const forms = "OWNER/NAME[@REVISION][:FILE or :QUANT]"

// ParseRef reads OWNER/NAME[@REVISION][:FILE], or OWNER/NAME[@REVISION]:QUANT, where QUANT may be in small letters.
// Without a revision it is "main"; the quantisation "latest" is the same as none.
func ParseRef(s string) (Ref, error) {
	head, file, hasFile := strings.Cut(s, ":")
	repo, revision, hasRevision := strings.Cut(head, "@")
	owner, name, _ := strings.Cut(repo, "/")
	r := Ref{Owner: owner, Name: name, Revision: revision, File: file}
	if !hasRevision {
		r.Revision = "main"
	}
	switch {
	case strings.HasPrefix(file, "//"):
		return Ref{}, fmt.Errorf("%s is an address; write %s instead", errs.Quote(s), forms)
	case !repoPart.MatchString(owner) || !repoPart.MatchString(name):
		return Ref{}, fmt.Errorf("%s does not name a repository: write %s, such as "+
			"Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0", errs.Quote(s), forms)
	case r.Revision == "" || strings.ContainsAny(r.Revision, " \t\r\n"):
		return Ref{}, fmt.Errorf("%s: the revision after @ is a branch, a tag or a commit", errs.Quote(s))
	case !hasFile:
		return r, nil
	case file == "":
		return Ref{}, fmt.Errorf("%s: nothing follows the colon: write a quantisation such as Q4_K_M, or a file",
			errs.Quote(s))
	case quantName.MatchString(file):
		r.File, r.Quant = "", strings.ToUpper(file)
		if r.Quant == "LATEST" {
			r.Quant = ""
		}
		return r, nil
	}
	if err := checkFileName(file); err != nil {
		return Ref{}, fmt.Errorf("%s: %w", errs.Quote(s), err)
	}
	r.File = path.Clean(file)
	return r, nil
}

// String returns the form that ParseRef reads.
func (r Ref) String() string {
	s := r.repositoryName()
	if r.Revision != "main" {
		s += "@" + r.Revision
	}
	switch {
	case r.File != "":
		s += ":" + r.File
	case r.Quant != "":
		s += ":" + r.Quant
	}
	return s
}

func (r Ref) repositoryName() string { return r.Owner + "/" + r.Name }

// checkFileName returns an error if name is not the path of a GGUF file inside a repository, on any system: it refuses
// a name that leads out of the folder, a device name of Windows, a control character.
func checkFileName(name string) error {
	switch {
	case strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }), strings.ContainsAny(name, `\:`),
		!filepath.IsLocal(filepath.FromSlash(name)):
		return fmt.Errorf("file name %s leads out of the repository or cannot be a file here", errs.Quote(name))
	case slices.ContainsFunc(strings.Split(name, "/"), func(s string) bool { return len(s) > maxName }):
		return fmt.Errorf("file name %s is longer than the %d bytes that a file may have", errs.Quote(name), maxName)
	case !isGGUF(name):
		return fmt.Errorf("file name %s does not end in .gguf, and is no quantisation such as Q4_K_M either",
			errs.Quote(name))
	}
	return nil
}

// maxName is the maximum length of a path element on common systems, less the suffix .part.
const maxName = 255 - len(".part")

func isGGUF(name string) bool {
	return strings.EqualFold(path.Ext(name), ".gguf") && len(path.Base(name)) > len(".gguf")
}
