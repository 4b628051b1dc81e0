package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Model is a model in the folder of [Pull], complete or not.
type Model struct {
	Owner, Name string    // the repository
	File        string    // path inside the repository, with slashes; of a split model the first part
	Quant       string    // quantisation in upper case; "" if the file's name has none
	Path        string    // on this machine, of File
	Size        int64     // bytes on disk, of all parts together
	Modified    time.Time // of the latest part
	Missing     int       // number of missing or incomplete parts
}

// Repository returns OWNER/NAME.
func (m Model) Repository() string { return m.Owner + "/" + m.Name }

// Ref returns the shortest name that identifies the model among all.
func (m Model) Ref(all []Model) string {
	r := Ref{Owner: m.Owner, Name: m.Name, Revision: "main", Quant: m.Quant}
	if m.Quant != "" && len(matchModels(all, r)) == 1 {
		return r.String()
	}
	r.File = m.File
	return r.String()
}

// Models lists the models in the folder, by repository and file. A missing folder has none.
func Models(dir string) ([]Model, error) {
	var all []Model
	owners, err := listFolders(dir)
	if err != nil {
		return nil, err
	}
	for _, owner := range owners {
		names, err := listFolders(filepath.Join(dir, owner))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			found, err := listRepository(filepath.Join(dir, owner, name), owner, name)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

func listFolders(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.IsDir() &&
			repoPart.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func listRepository(root, owner, name string) ([]Model, error) {
	files := map[string]fs.FileInfo{}       // by the name in the repository, incomplete ones with .part
	top, err := filepath.EvalSymlinks(root) // WalkDir does not follow a link to the folder
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(p) // follows links
		if err != nil || !info.Mode().IsRegular() {
			return nil // deleted meanwhile, or not readable
		}
		inside, err := filepath.Rel(top, p)
		files[filepath.ToSlash(inside)] = info
		return err
	})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var all []Model
	for file := range files {
		s := parseSplitName(strings.TrimSuffix(file, ".part"))
		first := s.partName(1)
		if !isGGUF(first) || seen[first] {
			continue
		}
		seen[first] = true
		m := Model{Owner: owner, Name: name, File: first, Quant: parseQuant(first),
			Path: filepath.Join(root, filepath.FromSlash(first))}
		for i := range s.count {
			name := s.partName(i + 1)
			m.addPart(files[name], files[name+".part"])
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Model) int { return strings.Compare(a.File, b.File) })
	return all, nil
}

// addPart takes the complete file and the incomplete one; both are nil if the part is missing.
func (m *Model) addPart(whole, begun fs.FileInfo) {
	if whole == nil {
		m.Missing++
	}
	for _, info := range []fs.FileInfo{whole, begun} {
		if info == nil {
			continue
		}
		m.Size += info.Size()
		if info.ModTime().After(m.Modified) {
			m.Modified = info.ModTime()
		}
	}
}

// matchModels returns the models that r can mean. Letter case in the repository is ignored, as on the hub, unless a
// model has the exact spelling of r.
func matchModels(all []Model, r Ref) (found []Model) {
	for _, m := range all {
		if strings.EqualFold(m.Owner, r.Owner) && strings.EqualFold(m.Name, r.Name) &&
			(r.File == "" || modelHasPart(m, r.File)) {
			found = append(found, m)
		}
	}
	exact := func(m Model) bool { return m.Owner == r.Owner && m.Name == r.Name }
	if slices.ContainsFunc(found, exact) {
		found = slices.DeleteFunc(found, func(m Model) bool { return !exact(m) })
	}
	if r.File == "" && r.Quant != "" {
		found = filterByQuant(found, r.Quant, func(m Model) string { return m.File })
	}
	return found
}

func modelHasPart(m Model, file string) bool { return parseSplitName(file).partName(1) == m.File }

// MissingError is returned for a model that is not in the folder.
type MissingError struct {
	Ref  Ref
	Dir  string   // the folder
	Here []string // models of the same repository in the folder
}

// Error implements error.
func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "there is no file %s, and no such model in %s: fetch it with \"pilotfish pull %s\"", e.Ref, e.Dir,
		e.Ref)
	if len(e.Here) > 0 {
		fmt.Fprintf(&b, ", or name one that is here: %s", strings.Join(e.Here, ", "))
	}
	return b.String()
}

// AmbiguousError is returned for a name that several models have.
type AmbiguousError struct {
	Name string
	Refs []string // the possible models
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s can be any of these: name one of them: %s", e.Name, strings.Join(e.Refs, ", "))
}

func resolveModelPath(dir, name string) (string, error) {
	m, err := Find(dir, name)
	if err != nil {
		return "", err
	}
	if m.Missing > 0 {
		r := Ref{Owner: m.Owner, Name: m.Name, Revision: "main", File: m.File}
		return "", fmt.Errorf("%s is not complete: \"pilotfish pull %s\" fetches the rest", r, r)
	}
	return m.Path, nil
}

// Find returns the model in the folder with a name of the form OWNER/NAME[:FILE or :QUANT], complete or not. The
// error is a [MissingError] or an [AmbiguousError], or it describes what is wrong with the name or with the folder.
func Find(dir, name string) (Model, error) {
	r, err := ParseRef(name)
	if err != nil {
		return Model{}, err
	}
	if r.Revision != "main" {
		return Model{}, fmt.Errorf("%s: revisions are not kept apart once they are here: leave out @%s",
			errs.Quote(name), r.Revision)
	}
	all, err := Models(dir)
	if err != nil {
		return Model{}, fmt.Errorf("find %s: %w", r, err)
	}
	found := matchModels(all, r)
	complete := slices.DeleteFunc(slices.Clone(found), func(m Model) bool { return m.Missing > 0 })
	if len(complete) > 0 {
		found = complete
	}
	switch len(found) {
	case 0:
		var here []string
		for _, m := range matchModels(all, Ref{Owner: r.Owner, Name: r.Name}) {
			here = append(here, m.Ref(all))
		}
		return Model{}, &MissingError{r, dir, here}
	case 1:
		return found[0], nil
	}
	var refs []string
	for _, m := range found {
		refs = append(refs, m.Ref(all))
	}
	return Model{}, &AmbiguousError{r.String(), refs}
}

func isFilePath(name string) bool {
	head, rest, _ := strings.Cut(name, ":")
	repo, _, _ := strings.Cut(head, "@")
	owner, repoName, _ := strings.Cut(repo, "/")
	return !repoPart.MatchString(owner) || !repoPart.MatchString(repoName) || rest == "" && isGGUF(head)
}

// Remove deletes a model with all its files, including those of an incomplete pull, and folders that become empty. If a
// part of it is being pulled, it fails with [ErrBusy] and deletes nothing.
func Remove(dir string, m Model) error {
	defer removeEmptyFolders(dir, m)
	s := parseSplitName(m.File)
	paths := make([]string, s.count)
	for i := range paths {
		var err error
		if paths[i], err = localFilePath(dir, Ref{Owner: m.Owner, Name: m.Name}, s.partName(i+1)); err != nil {
			return fmt.Errorf("remove %s: %w", m.Path, err)
		}
		unlock, err := lockFile(paths[i] + ".lock")
		if err != nil {
			return fmt.Errorf("remove %s: %w", m.Path, err)
		}
		defer unlock()
	}
	var failed []error
	for _, p := range paths {
		for _, file := range []string{p, p + ".part"} {
			if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

func removeEmptyFolders(dir string, m Model) {
	for inside := path.Join(m.Owner, m.Name, path.Dir(m.File)); inside != "."; inside = path.Dir(inside) {
		folder := filepath.Join(dir, filepath.FromSlash(inside))
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
			return // a link, which can be removed even if the folder is not empty
		}
		if os.Remove(folder) != nil {
			return // not empty: something else is in it
		}
	}
}
