package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// ChecksumError is returned for a complete download with a wrong SHA-256. The file was removed.
type ChecksumError struct {
	Path      string // where it would have been
	Want, Got string // SHA-256 in hexadecimal
}

// Error implements error.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s: what arrived has SHA-256 %s, it should be %s; it was removed, try again",
		e.Path, e.Got, e.Want)
}

// part is an incomplete download: path.part, and path.part.json with the origin of its bytes.
type part struct {
	path string // of the file when it is complete
	want remote
	f    *os.File
	sum  hash.Hash // of the bytes in f
	size int64     // of f, which is where the next byte goes
	from origin
}

// origin identifies the file that the bytes of a part belong to.
type origin struct {
	SHA256 string `json:"sha256,omitempty"` // of the whole file, if the hub reports it
	ETag   string `json:"etag,omitempty"`   // of the server that sent them
}

// strong reports whether the entity tag identifies the bytes themselves, so that it can decide whether to resume.
func (o origin) strong() bool { return o.ETag != "" && !strings.HasPrefix(o.ETag, "W/") }

// vouched reports whether it can be detected that later bytes belong to another file: by the SHA-256 of the whole file,
// or a strong entity tag.
func (p *part) vouched() bool { return p.want.sha256 != "" || p.from.strong() }

// isOther reports whether the server's bytes, with the given entity tag, belong to another file. Without a SHA-256 to
// check the file, a missing tag counts as another file.
func (p *part) isOther(etag string) bool {
	return p.from.strong() && etag != p.from.ETag && (etag != "" || p.want.sha256 == "")
}

// openPart opens the bytes of an earlier call, and empties the part if they may belong to another file.
func openPart(ctx context.Context, path string, want remote) (*part, error) {
	f, err := os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	p := &part{path: path, want: want, f: f, sum: sha256.New()}
	if text, err := os.ReadFile(p.originPath()); err == nil && json.Unmarshal(text, &p.from) != nil {
		p.from = origin{}
	}
	if err := p.takeUp(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// takeUp adds the existing bytes to the sum if the download can be resumed.
func (p *part) takeUp(ctx context.Context) (err error) {
	known := p.from.SHA256 != "" && p.from.SHA256 == p.want.sha256 || p.want.sha256 == "" && p.from.strong()
	if known {
		p.size, err = io.Copy(p.sum, contextReader{ctx, p.f})
	}
	if err == nil && (!known || p.want.size >= 0 && p.size > p.want.size) {
		err = p.restart()
	}
	return err
}

// restart drops all bytes.
func (p *part) restart() error {
	p.size, p.from = 0, origin{}
	p.sum.Reset()
	if err := p.f.Truncate(0); err != nil {
		return err
	}
	_, err := p.f.Seek(0, io.SeekStart)
	return err
}

// begin records the origin of the bytes that will be written into an empty part.
func (p *part) begin(etag string) error {
	p.from = origin{SHA256: p.want.sha256, ETag: etag}
	text, err := json.Marshal(p.from)
	if err != nil {
		return err
	}
	return os.WriteFile(p.originPath(), text, 0o644)
}

// Write implements io.Writer.
func (p *part) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	p.sum.Write(b[:n])
	p.size += int64(n)
	return n, err
}

func (p *part) originPath() string { return p.path + ".part.json" }

// complete reports whether all bytes have arrived, if the length is known.
func (p *part) complete() bool { return p.want.size >= 0 && p.size == p.want.size }

// finish checks the sum and moves the file to its place. It closes the part in any case.
func (p *part) finish() (File, error) {
	got := hex.EncodeToString(p.sum.Sum(nil))
	if p.want.sha256 != "" && got != p.want.sha256 {
		return File{}, errors.Join(&ChecksumError{Path: p.path, Want: p.want.sha256, Got: got}, p.remove())
	}
	if err := errors.Join(p.f.Sync(), p.f.Close()); err != nil {
		return File{}, err
	}
	if err := os.Rename(p.path+".part", p.path); err != nil {
		return File{}, err
	}
	if err := errors.Join(removeIfThere(p.originPath()), files.SyncFolder(p.path)); err != nil {
		return File{}, err
	}
	return File{Path: p.path, Size: p.size, SHA256: got, Fetched: true}, nil
}

// remove closes and deletes the part.
func (p *part) remove() error {
	p.f.Close()
	return errors.Join(os.Remove(p.path+".part"), removeIfThere(p.originPath()))
}

// removeIfThere is os.Remove, without an error for a missing file.
func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// fileSHA256 returns length and SHA-256 of a file.
func fileSHA256(ctx context.Context, path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, contextReader{ctx, f}); err != nil {
		return 0, "", err
	}
	return size, hex.EncodeToString(h.Sum(nil)), nil
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
