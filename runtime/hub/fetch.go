package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// fetch downloads one file of a repository to its place, unless it exists.
func (p *puller) fetch(ctx context.Context, r Ref, w remote, report func(done, size int64)) (File, error) {
	path, err := place(p.opt.Dir, r, w.name)
	if err != nil {
		return File{}, err
	}
	return p.fetchTo(ctx, path, p.resolveURL(r, w.name), w, report)
}

// fetchTo downloads the file at an address to path, unless it exists.
func (p *puller) fetchTo(
	ctx context.Context, path string, from *url.URL, w remote, report func(done, size int64),
) (File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return File{}, err
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return File{}, err
	}
	defer unlock()

	if f, err := p.present(ctx, path, w); err != nil || f.Path != "" {
		return f, err
	}
	pt, err := openPart(ctx, path, w)
	if err != nil {
		return File{}, err
	}
	report(pt.size, pt.want.size)
	if err := p.fill(ctx, from, pt, report); err != nil {
		if errors.Is(err, errOther) || pt.size == 0 {
			return File{}, errors.Join(err, pt.remove())
		}
		return File{}, errors.Join(&CutOffError{Part: pt.f.Name(), Err: err}, pt.f.Close())
	}
	if pt.want.sha256 == "" {
		p.opt.Notice("the hub states no SHA-256 for " + w.name + ": nothing but its length could be checked")
	}
	return pt.finish()
}

// present returns the file at path if it is the wanted one, and otherwise a File without path.
func (p *puller) present(ctx context.Context, path string, w remote) (File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return File{}, nil
	case err != nil:
		return File{}, err
	case !info.Mode().IsRegular():
		return File{}, fmt.Errorf("%s is in the way: it is no plain file", path)
	case w.sha256 == "", w.size >= 0 && w.size != info.Size():
		return File{}, nil // there is no SHA-256 to check it
	}
	size, sum, err := fileSHA256(ctx, path)
	if err != nil {
		return File{}, err
	}
	if sum != w.sha256 {
		p.opt.Notice(path + " differs from the hub's file and will be replaced")
		return File{}, nil
	}
	return File{Path: path, Size: size, SHA256: sum}, nil
}

// errOther is the error of a file that cannot be the wanted one.
var errOther = errors.New("this is another file")

// fill downloads the missing bytes of pt.
func (p *puller) fill(ctx context.Context, u *url.URL, pt *part, report func(done, size int64)) error {
	if pt.complete() {
		return nil
	}
	return p.retry(ctx, func() error { return p.attempt(ctx, u, pt, report) })
}

// attempt requests the missing bytes once and writes those that arrive.
func (p *puller) attempt(ctx context.Context, u *url.URL, pt *part, report func(done, size int64)) error {
	if !pt.vouched() {
		if err := pt.restart(); err != nil {
			return err
		}
	}
	res, wait, err := p.get(ctx, p.http, http.MethodGet, u, rangeHeader(pt))
	if err != nil {
		return err
	}
	defer wait.stop()
	defer res.Body.Close()
	if err := p.accept(res, pt); err != nil {
		return err
	}
	before := pt.size
	if err := receive(pt, res.Body, report); err != nil {
		if t, ok := errors.AsType[*transientError](err); ok {
			t.moved = pt.size-before >= 1<<20
		}
		return err
	}
	return nil
}

// rangeHeader requests the missing bytes, on the condition that the server's file has not changed.
func rangeHeader(pt *part) http.Header {
	h := http.Header{}
	if pt.size > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", pt.size))
		if pt.from.strong() {
			h.Set("If-Range", pt.from.ETag)
		}
	}
	return h
}

// accept prepares pt for the body of res: if the server sends the missing bytes nothing changes; if it sends the whole
// file pt is emptied.
func (p *puller) accept(res *http.Response, pt *part) error {
	etag := res.Header.Get("ETag")
	switch res.StatusCode {
	case http.StatusPartialContent:
		first, total, err := parseContentRange(res.Header.Get("Content-Range"))
		if err != nil || first != pt.size || pt.isOther(etag) {
			return startAgain(pt, "the server sent another range than was asked for, or of another file")
		}
		return pt.learnSize(total)
	case http.StatusOK:
		if pt.size > 0 {
			p.opt.Notice("the server does not go on where the last pull stopped: starting again")
		}
		if err := pt.restart(); err != nil {
			return err
		}
		if err := pt.learnSize(res.ContentLength); err != nil {
			return err
		}
		return pt.begin(etag)
	case http.StatusRequestedRangeNotSatisfiable:
		return startAgain(pt, "the file on the server is shorter than what is here")
	}
	return p.statusError(res)
}

// startAgain empties pt. The next attempt then requests the whole file.
func startAgain(pt *part, why string) error {
	if err := pt.restart(); err != nil {
		return err
	}
	return &transientError{err: errors.New(why)}
}

// learnSize compares the length that the server reports, -1 if none, with the hub's. If the hub has not reported one,
// it uses the server's.
func (p *part) learnSize(n int64) error {
	switch {
	case n < 0:
	case p.want.size < 0:
		p.want.size = n
	case p.want.size != n:
		return fmt.Errorf("%w: the server has %d bytes of %s, it should have %d", errOther, n, p.want.name, p.want.size)
	}
	return nil
}

// receive writes the body into pt. An error of the network is worth another attempt, an error of the disk is not.
func receive(pt *part, body io.Reader, report func(done, size int64)) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if pt.want.size >= 0 && pt.size+int64(n) > pt.want.size {
			return fmt.Errorf("%w: the server sends more than the %d bytes of %s", errOther, pt.want.size, pt.want.name)
		}
		if n > 0 {
			if _, err := pt.Write(buf[:n]); err != nil {
				return err
			}
			report(pt.size, pt.want.size)
		}
		switch {
		case err == io.EOF && (pt.want.size < 0 || pt.complete()):
			return nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		case err == nil:
			continue
		}
		return &transientError{err: fmt.Errorf("%s broke off after %d bytes: %w", pt.want.name, pt.size, err)}
	}
}

// parseContentRange reads "bytes first-last/total"; total is -1 for "*".
func parseContentRange(s string) (first, total int64, err error) {
	span, whole, _ := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	begin, _, _ := strings.Cut(span, "-")
	if first, err = strconv.ParseInt(begin, 10, 64); err != nil {
		return 0, 0, err
	}
	if whole == "*" {
		return first, -1, nil
	}
	total, err = strconv.ParseInt(whole, 10, 64)
	return first, total, err
}

// CutOffError is the error of an incomplete download. Another call resumes it.
type CutOffError struct {
	Part string // the file with the bytes that have arrived
	Err  error  // why the download ended
}

// Error implements error.
func (e *CutOffError) Error() string { return e.Err.Error() + "; " + e.Kept() }

// Unwrap returns why the download ended.
func (e *CutOffError) Unwrap() error { return e.Err }

// Kept says where the received bytes are, and what to do.
func (e *CutOffError) Kept() string {
	return e.Part + " keeps what has arrived: the same command goes on from there"
}

// ErrBusy is returned when another pull, in this process or in another, is fetching the same file.
var ErrBusy = errors.New("another pull is fetching this file")

// lockFile acquires the lock file at path, or fails with [ErrBusy].
func lockFile(path string) (unlock func(), err error) {
	unlock, err = files.Lock(path)
	if errors.Is(err, files.ErrHeld) {
		err = fmt.Errorf("%s: %w: wait until it has ended", strings.TrimSuffix(path, ".lock"), ErrBusy)
	}
	return unlock, err
}
