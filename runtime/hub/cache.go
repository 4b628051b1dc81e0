package hub

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// hubCacheDir returns the folder in which Hugging Face's own tools keep what they fetch: HF_HUB_CACHE, or hub in
// HF_HOME, which by default is huggingface in the user's cache folder. "": there is no home folder.
func hubCacheDir(env func(key string) string) string {
	switch cache := env("XDG_CACHE_HOME"); {
	case env("HF_HUB_CACHE") != "":
		return env("HF_HUB_CACHE")
	case env("HF_HOME") != "":
		return filepath.Join(env("HF_HOME"), "hub")
	case cache != "":
		return filepath.Join(cache, "huggingface", "hub")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface", "hub")
}

// commit matches the name of a snapshot.
var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// findCachedModels returns the models in such a folder that r can mean. Its layout is that of the Python package
// huggingface_hub:
//
//	models--OWNER--NAME/refs/REVISION            the commit that a branch or tag is at
//	models--OWNER--NAME/snapshots/COMMIT/FILE    a link to a file in blobs, or where there are no links the file
//
// A file is linked when it is complete.
func findCachedModels(dir string, r Ref) (found []Model, err error) {
	names, err := listFolders(dir)
	if err != nil || dir == "" {
		return nil, err
	}
	for _, name := range names {
		if !strings.EqualFold(name, "models--"+r.Owner+"--"+r.Name) {
			continue
		}
		root := filepath.Join(dir, name)
		at := r.Revision
		if !commit.MatchString(at) {
			if at, err = currentCommit(root, r.Revision); err != nil {
				return nil, err
			}
			if at == "" {
				continue // a folder with the name in other letter case may have it
			}
		}
		all, err := listRepository(filepath.Join(root, "snapshots", at), r.Owner, r.Name)
		if errors.Is(err, os.ErrNotExist) {
			continue // nothing has been fetched of this commit
		}
		if err != nil {
			return nil, err
		}
		found = append(found, matchModels(all, r)...)
	}
	return found, nil
}

func currentCommit(root, revision string) (string, error) {
	refs, err := os.OpenRoot(filepath.Join(root, "refs")) // a revision is no path out of it
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer refs.Close()
	b, err := refs.ReadFile(filepath.FromSlash(revision))
	at := strings.TrimSpace(string(b))
	if errors.Is(err, os.ErrNotExist) || err == nil && !commit.MatchString(at) {
		return "", nil
	}
	return at, err
}

// Locate returns the path of the model with this name: an existing file, or else a model in the folder of [DefaultDir],
// or else one that other tools have fetched from the Hugging Face hub into their cache (HF_HUB_CACHE, HF_HOME). cache
// is the folder of that cache if it was found there, otherwise "". Names and errors are those of [Find]; in the
// cache a revision may be named too. Nothing is downloaded. env is os.Getenv or a substitute.
func Locate(env func(key string) string, name string) (path, cache string, err error) {
	if _, err := os.Stat(name); err == nil || isFilePath(name) {
		return name, "", nil
	}
	dir, err := DefaultDir(env)
	if err != nil {
		return name, "", nil // without a folder there are no names: opening the file says what is wrong
	}
	path, missing := resolveModelPath(dir, name)
	if _, many := errors.AsType[*AmbiguousError](missing); missing == nil || many {
		return path, "", missing
	}
	r, err := ParseRef(name)
	if err != nil {
		return "", "", err
	}
	cache = hubCacheDir(env)
	found, err := findCachedModels(cache, r)
	if err != nil {
		return "", "", errors.Join(missing, err)
	}
	var refs []string
	for _, m := range found {
		if m.Missing == 0 {
			path = m.Path
			refs = append(refs, m.Ref(found))
		}
	}
	switch len(refs) {
	case 0:
		return "", "", missing
	case 1:
		return path, cache, nil
	}
	return "", "", &AmbiguousError{r.String(), refs}
}
