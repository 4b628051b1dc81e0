// Package hub fetches GGUF files from the Hugging Face hub, or from a server that speaks like it.
//
// Two addresses of the hub are used:
//
//	GET {endpoint}/api/models/{owner}/{name}/tree/{revision}?recursive=true   what files there are, with size and SHA-256
//	GET {endpoint}/{owner}/{name}/resolve/{revision}/{file}                   a file, mostly through a redirect to another host
//
// A file travels into FILE.part beside its place, with what is known about it in FILE.part.json, and moves to its place
// only when its length and its SHA-256 are the hub's. A pull that was cut off goes on where it stopped. FILE.lock keeps
// two pulls of one file apart. The token goes to the endpoint and nowhere else.
package hub

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"time"
)

// DefaultEndpoint is the hub that is asked when no other is named.
const DefaultEndpoint = "https://huggingface.co"

// Options says where from, where to, and how patiently. Only Dir has to be set.
type Options struct {
	Dir       string                  // where files go, as Dir/owner/name/file
	Endpoint  string                  // the hub's address; "" means DefaultEndpoint
	Token     string                  // proves who asks, to the endpoint alone; "" means anonymous
	Attempts  int                     // tries in a row that bring nothing new before giving up; 0 means 6
	Stall     time.Duration           // silence after which a connection counts as broken; 0 means 30s
	Progress  func(done, total int64) // called as bytes arrive, counted over all parts; total is -1 where unknown; may be nil
	Notice    func(text string)       // called with what a person would like to know meanwhile, such as a retry; may be nil
	Transport http.RoundTripper       // carries the requests; nil means http.DefaultTransport
}

// File is one file in its place.
type File struct {
	Path    string // on this machine
	Size    int64  // bytes
	SHA256  string // in hexadecimal; always computed here, and compared with the hub's where the hub states one
	Fetched bool   // false: it was here already
}

// Pull brings the file that r names, with all its parts if it is split, and returns them in order: the first one is what
// a model is loaded from. A file that is here already is read once to compare its SHA-256, and is replaced if that
// differs from the hub's. When ctx ends, the part that has arrived is kept for the next call.
func Pull(ctx context.Context, r Ref, opt Options) ([]File, error) {
	p, err := newPuller(opt)
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", r, err)
	}
	files, err := p.pull(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", r, err)
	}
	return files, nil
}

// pull finds out which files r means and fetches one after the other.
func (p *puller) pull(ctx context.Context, r Ref) ([]File, error) {
	wanted, err := p.find(ctx, r)
	if err != nil {
		return nil, err
	}
	total := totalSize(wanted)
	var before int64 // bytes of the files that are complete
	files := make([]File, 0, len(wanted))
	for _, w := range wanted {
		f, err := p.fetch(ctx, r, w, func(done, size int64) {
			if len(wanted) == 1 {
				total = size // the hub may not have told it, but the server that has the bytes
			}
			p.opt.Progress(before+done, total)
		})
		if err != nil {
			return nil, err
		}
		before += f.Size
		p.opt.Progress(before, total)
		files = append(files, f)
	}
	return files, nil
}

// find returns the files that r means, with what the hub says about them.
func (p *puller) find(ctx context.Context, r Ref) ([]remote, error) {
	wanted, err := p.choose(ctx, r)
	if err != nil {
		return nil, err
	}
	for i, w := range wanted {
		if w.sha256 == "" || w.size < 0 {
			if wanted[i], err = p.describe(ctx, r, w); err != nil {
				return nil, err
			}
		}
	}
	return wanted, nil
}

// choose lists the repository and chooses. Of a server that does not list, a file can still be asked for by name.
func (p *puller) choose(ctx context.Context, r Ref) ([]remote, error) {
	listed, err := p.list(ctx, r)
	switch {
	case err == nil && r.File == "":
		return choose(r, listed)
	case err == nil:
		return named(r, listed, partNames(r.File))
	case r.File != "" && cannotList(err):
		return partNames(r.File), nil
	}
	return nil, err
}

// place returns where a file of r's repository belongs under dir. Names come from the server or the command line: one
// that would lead out of the repository's folder is refused.
func place(dir string, r Ref, name string) (string, error) {
	if err := checkFileName(name); err != nil {
		return "", err
	}
	return filepath.Join(dir, r.Owner, r.Name, filepath.FromSlash(path.Clean(name))), nil
}
