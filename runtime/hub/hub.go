// Package hub downloads GGUF files from the Hugging Face hub, or from a compatible server.
//
// It uses two addresses of the hub:
//
//	GET {endpoint}/api/models/{owner}/{name}/tree/{revision}?recursive=true   the files, with size and SHA-256
//	GET {endpoint}/{owner}/{name}/resolve/{revision}/{file}                   a file, mostly redirected elsewhere
//
// A file is downloaded to FILE.part in the same folder, and moved to its place only when its length and its SHA-256 are
// those of the hub. An interrupted pull is resumed. FILE.lock prevents two pulls of one file at the same time. The
// token is sent only to the endpoint.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// DefaultEndpoint is the default hub.
const DefaultEndpoint = "https://huggingface.co"

// Options configure a pull. Only Dir is required.
type Options struct {
	Dir       string                  // where files go, as Dir/owner/name/file
	Endpoint  string                  // the hub's address; "" means DefaultEndpoint
	Token     string                  // for authentication, sent to the endpoint alone; "" means anonymous
	Attempts  int                     // consecutive attempts without new bytes before giving up; 0 means 6
	Progress  func(done, total int64) // called as bytes arrive, for all parts; may be nil
	Notice    func(text string)       // called with a message for the user, such as a retry; may be nil
	Transport http.RoundTripper       // carries the requests; nil means http.DefaultTransport
}

// File is one file in its place.
type File struct {
	Path    string // on this machine
	Size    int64  // bytes
	SHA256  string // in hexadecimal; always computed here, and compared with the hub's where the hub states one
	Fetched bool   // false: it was here already
}

// Pull brings the file that r names, with all its parts if it is split, and returns them in order: the first one is
// what a model is loaded from. A file that is here already is read once to compare its SHA-256, and is replaced if that
// differs from the hub's. When ctx ends, the part that has arrived is kept for the next call.
func Pull(ctx context.Context, r Ref, opt Options) ([]File, error) {
	p, err := newPuller(opt)
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", r, err)
	}
	files, err := p.pullFiles(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", r, err)
	}
	return files, nil
}

func (p *puller) pullFiles(ctx context.Context, r Ref) ([]File, error) {
	listed, err := p.listFiles(ctx, r)
	if err != nil {
		return nil, err
	}
	var wanted []remoteFile
	if r.File == "" {
		wanted, err = chooseModel(r, listed)
	} else {
		wanted, err = findNamedFile(r, listed)
	}
	if err != nil {
		return nil, err
	}
	total := totalSize(wanted)
	var before int64 // bytes of the files that are complete
	files := make([]File, 0, len(wanted))
	for _, w := range wanted {
		path, err := localFilePath(p.opt.Dir, r, w.name)
		if err != nil {
			return nil, err
		}
		f, err := p.fetchFile(ctx, path, p.resolveURL(r, w.name), w,
			func(done int64) { p.opt.Progress(before+done, total) })
		if err != nil {
			return nil, err
		}
		before += f.Size
		p.opt.Progress(before, total)
		files = append(files, f)
	}
	return files, nil
}

// localFilePath refuses a name that leads out of the repository's folder: names come from the server or the command
// line.
func localFilePath(dir string, r Ref, name string) (string, error) {
	if err := checkFileName(name); err != nil {
		return "", err
	}
	return filepath.Join(dir, r.Owner, r.Name, filepath.FromSlash(path.Clean(name))), nil
}

// puller is a Pull in progress.
type puller struct {
	opt      Options // with all defaults set
	endpoint *url.URL
	http     *http.Client
}

func newPuller(opt Options) (*puller, error) {
	if opt.Dir == "" {
		return nil, errors.New("no folder to put files into")
	}
	if opt.Endpoint == "" {
		opt.Endpoint = DefaultEndpoint
	}
	if opt.Attempts <= 0 {
		opt.Attempts = 6
	}
	if opt.Progress == nil {
		opt.Progress = func(int64, int64) {}
	}
	if opt.Notice == nil {
		opt.Notice = func(string) {}
	}
	if opt.Transport == nil {
		opt.Transport = http.DefaultTransport
	}
	endpoint, err := parseEndpoint(opt.Endpoint)
	if err != nil {
		return nil, err
	}
	opt.Token = strings.TrimSpace(opt.Token)
	if strings.ContainsFunc(opt.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("the token holds characters that no token has") // never the token itself
	}
	client := &http.Client{
		Transport:     &tokenTransport{next: opt.Transport, endpoint: endpoint, token: opt.Token},
		CheckRedirect: checkRedirect,
	}
	return &puller{opt: opt, endpoint: endpoint, http: client}, nil
}

func parseEndpoint(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	switch {
	case err != nil:
		return nil, errors.New("the hub's address is not a URL") // not err: it may contain a password
	case u.User != nil:
		return nil, errors.New("the hub's address holds a user name; give a token instead")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("the hub's address %s is not like %s", errs.Quote(s), DefaultEndpoint)
	}
	return u, nil
}

// Address is the address of a file with a known SHA-256.
type Address struct {
	URL    string // http or https
	Name   string // of the file in [Options.Dir]
	Size   int64  // bytes: no more are taken
	SHA256 string // in hexadecimal
}

// Fetch downloads the file to its place, like [Pull]: it reads an existing file to compare its SHA-256, and resumes an
// incomplete one. A file with another length or SHA-256 is refused and removed.
func Fetch(ctx context.Context, a Address, opt Options) (File, error) {
	p, err := newPuller(opt)
	if err != nil {
		return File{}, fmt.Errorf("fetch %s: %w", a.Name, err)
	}
	from, err := url.Parse(a.URL)
	if err != nil {
		return File{}, fmt.Errorf("fetch %s: %w", a.Name, err)
	}
	w := remoteFile{name: a.Name, size: a.Size, sha256: normalizeSHA256(a.SHA256)}
	f, err := p.fetchFile(ctx, filepath.Join(opt.Dir, a.Name), from, w,
		func(done int64) { p.opt.Progress(done, a.Size) })
	if err != nil {
		return File{}, fmt.Errorf("fetch %s: %w", a.Name, err)
	}
	return f, nil
}

// DefaultDir returns the default folder of files: PILOTFISH_MODELS if it is set, otherwise pilotfish/models in the
// user's cache folder. env is os.Getenv or a substitute.
func DefaultDir(env func(key string) string) (string, error) {
	if dir := env("PILOTFISH_MODELS"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for models: %w; name one with PILOTFISH_MODELS", err)
	}
	return filepath.Join(cache, "pilotfish", "models"), nil
}
