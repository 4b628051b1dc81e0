package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// fetchFile downloads the file at an address to path, unless it exists.
func (p *puller) fetchFile(
	ctx context.Context, path string, from *url.URL, w remoteFile, report func(done int64),
) (File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return File{}, err
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return File{}, err
	}
	defer unlock()
	if f, err := p.existingFile(ctx, path, w); err != nil || f.Path != "" {
		return f, err
	}
	pt, err := openPartialFile(ctx, path, w)
	if err != nil {
		return File{}, err
	}
	defer pt.f.Close() // again, unless an error ends this before completeDownload
	report(pt.size)
	if pt.size < w.size {
		err = p.retryTransient(ctx, func() error { return p.attemptDownload(ctx, from, pt, report) })
	}
	switch {
	case errors.Is(err, errOther) || err != nil && pt.size == 0:
		return File{}, errors.Join(err, pt.f.Close(), os.Remove(pt.f.Name()))
	case err != nil:
		return File{}, &CutOffError{Part: pt.f.Name(), Err: err}
	}
	if w.sha256 == "" {
		p.opt.Notice("the hub states no SHA-256 for " + w.name + ": nothing but its length could be checked")
	}
	return pt.completeDownload()
}

// existingFile returns a File without path if the file at path is absent or not the wanted one.
func (p *puller) existingFile(ctx context.Context, path string, w remoteFile) (File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return File{}, nil
	case err != nil:
		return File{}, err
	case !info.Mode().IsRegular():
		return File{}, fmt.Errorf("%s is in the way: it is no plain file", path)
	case w.sha256 == "", w.size != info.Size():
		return File{}, nil // there is no SHA-256 to check it
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err = io.Copy(h, contextReader{ctx, f}); err != nil {
		return File{}, err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum == w.sha256 {
		return File{Path: path, Size: w.size, SHA256: sum}, nil
	}
	p.opt.Notice(path + " differs from the hub's file and will be replaced")
	return File{}, nil
}

// partialFile is an incomplete download, in path.part.
type partialFile struct {
	path string // of the file when it is complete
	want remoteFile
	f    *os.File
	sum  hash.Hash // of the bytes in f
	size int64     // of f, which is where the next byte goes
}

// openPartialFile keeps the bytes of an earlier call, unless there is no SHA-256 to check the file at the end.
func openPartialFile(ctx context.Context, path string, want remoteFile) (*partialFile, error) {
	f, err := os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	p := &partialFile{path: path, want: want, f: f, sum: sha256.New()}
	if want.sha256 != "" {
		p.size, err = io.Copy(p.sum, io.LimitReader(contextReader{ctx, f}, want.size+1))
	}
	if err == nil && (want.sha256 == "" || p.size > want.size) {
		err = p.restartDownload()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

func (p *partialFile) restartDownload() error {
	p.size = 0
	p.sum.Reset()
	if err := p.f.Truncate(0); err != nil {
		return err
	}
	_, err := p.f.Seek(0, io.SeekStart)
	return err
}

// Write implements io.Writer.
func (p *partialFile) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	p.sum.Write(b[:n])
	p.size += int64(n)
	return n, err
}

func (p *partialFile) completeDownload() (File, error) {
	got := hex.EncodeToString(p.sum.Sum(nil))
	if p.want.sha256 != "" && p.want.sha256 != got {
		return File{}, errors.Join(fmt.Errorf("%s: what arrived has SHA-256 %s, it should be %s; it was removed, "+
			"try again", p.path, got, p.want.sha256), p.f.Close(), os.Remove(p.f.Name()))
	}
	if err := errors.Join(p.f.Sync(), p.f.Close()); err != nil {
		return File{}, err
	}
	if err := os.Rename(p.f.Name(), p.path); err != nil {
		return File{}, err
	}
	return File{Path: p.path, Size: p.size, SHA256: got, Fetched: true}, files.SyncFolder(p.path)
}

// contextReader reads until ctx ends: hashing many gigabytes takes a while.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c contextReader) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(b)
}

// errOther is the error of a file that cannot be the wanted one.
var errOther = errors.New("this is another file")

// attemptDownload requests the missing bytes once and writes those that arrive. Without a SHA-256 it requests all
// bytes, since later ones could be of another file.
func (p *puller) attemptDownload(ctx context.Context, u *url.URL, pt *partialFile, report func(done int64)) error {
	if pt.want.sha256 == "" {
		if err := pt.restartDownload(); err != nil {
			return err
		}
	}
	header := http.Header{}
	if pt.size > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", pt.size))
	}
	res, err := p.sendRequest(ctx, u, header)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch span := fmt.Sprintf("bytes %d-%d/%d", pt.size, pt.want.size-1, pt.want.size); {
	case res.StatusCode == http.StatusPartialContent && res.Header.Get("Content-Range") == span:
	case res.StatusCode == http.StatusPartialContent, res.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if err := pt.restartDownload(); err != nil {
			return err
		}
		return &transientError{err: fmt.Errorf("the server does not have the rest of %s: starting again", pt.want.name)}
	case res.StatusCode != http.StatusOK:
		return p.statusError(res)
	case res.ContentLength >= 0 && res.ContentLength != pt.want.size:
		return fmt.Errorf("%w: the server has %d bytes of %s, it should have %d", errOther, res.ContentLength,
			pt.want.name, pt.want.size)
	default:
		if pt.size > 0 {
			p.opt.Notice("the server does not go on where the last pull stopped: starting again")
		}
		if err := pt.restartDownload(); err != nil {
			return err
		}
	}
	return receiveBody(pt, res.Body, report)
}

// receiveBody treats an error of the network as worth another attempt, an error of the disk as not.
func receiveBody(pt *partialFile, body io.Reader, report func(done int64)) error {
	before := pt.size
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if pt.size+int64(n) > pt.want.size {
			return fmt.Errorf("%w: the server sends more than the %d bytes of %s", errOther, pt.want.size, pt.want.name)
		}
		if n > 0 {
			if _, err := pt.Write(buf[:n]); err != nil {
				return err
			}
			report(pt.size)
		}
		switch {
		case err == io.EOF && pt.size == pt.want.size:
			return nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		case err == nil:
			continue
		}
		return &transientError{err: fmt.Errorf("%s broke off after %d bytes: %w", pt.want.name, pt.size, err),
			moved: pt.size-before >= 1<<20}
	}
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

func lockFile(path string) (unlock func(), err error) {
	unlock, err = files.Lock(path)
	if errors.Is(err, files.ErrHeld) {
		err = fmt.Errorf("%s: %w: wait until it has ended", strings.TrimSuffix(path, ".lock"), ErrBusy)
	}
	return unlock, err
}
