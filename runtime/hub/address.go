package hub

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Address is one file that is known to the last bit, wherever it is fetched from.
type Address struct {
	URL    string // http or https
	Name   string // of the file in [Options.Dir]
	Size   int64  // bytes: no more are taken
	SHA256 string // in hexadecimal
}

// Fetch brings the file to its place, as [Pull] does: one that is there already is read to compare its SHA-256, and one
// that was cut off goes on where it stopped. A file with another length or SHA-256 is refused, and nothing of it stays.
func Fetch(ctx context.Context, a Address, opt Options) (File, error) {
	p, err := newPuller(opt)
	if err != nil {
		return File{}, fmt.Errorf("fetch %s: %w", a.Name, err)
	}
	from, err := a.check()
	if err != nil {
		return File{}, fmt.Errorf("fetch %s: %w", a.Name, err)
	}
	w := remote{name: a.Name, size: a.Size, sha256: a.SHA256}
	f, err := p.fetchTo(ctx, filepath.Join(opt.Dir, a.Name), from, w, p.opt.Progress)
	if err != nil {
		return File{}, fmt.Errorf("fetch %s: %w", a.Name, err)
	}
	return f, nil
}

// check refuses what is no address of a known file.
func (a Address) check() (*url.URL, error) {
	sum, err := hex.DecodeString(a.SHA256)
	plain := a.Name == filepath.Base(a.Name) && !strings.ContainsAny(a.Name, `/\`) && strings.Trim(a.Name, ".") != ""
	if err != nil || len(sum) != 32 || a.Size < 0 || !plain {
		return nil, errors.New("it must have a plain name, a length and a SHA-256")
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, errors.New("its address is not like https://example.org/file") // not shown: it may hold a password
	}
	return u, nil
}
