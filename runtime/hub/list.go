package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

const (
	maxPage  = 4 << 20 // bytes of one page of a listing
	maxPages = 200
	maxFiles = 20_000 // GGUF files of a listing
)

// treeEntry is the part of an element of the hub's listing that is used.
type treeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"` // SHA-256
		Size int64  `json:"size"`
	} `json:"lfs"`
}

func (p *puller) listFiles(ctx context.Context, r Ref) ([]remoteFile, error) {
	page := p.endpointURL("api", "models", r.Owner, r.Name, "tree", r.Revision)
	page.RawQuery = "recursive=true"
	var files []remoteFile
	for range maxPages {
		entries, next, err := p.listPage(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("list files: %w", err)
		}
		for _, e := range entries {
			if e.Type != "directory" && isGGUF(e.Path) {
				files = append(files, e.toRemoteFile())
			}
		}
		switch {
		case len(files) > maxFiles:
			return nil, fmt.Errorf("list files: more than %d GGUF files", maxFiles)
		case next == nil:
			return files, nil
		}
		page = next
	}
	return nil, fmt.Errorf("list files: more than %d pages", maxPages)
}

func (e treeEntry) toRemoteFile() remoteFile {
	f := remoteFile{name: e.Path, size: e.Size}
	if e.LFS != nil {
		f.size, f.sha256 = e.LFS.Size, normalizeSHA256(e.LFS.OID)
	}
	return f
}

func (p *puller) listPage(ctx context.Context, page *url.URL) (entries []treeEntry, next *url.URL, err error) {
	err = p.retryTransient(ctx, func() error {
		res, err := p.sendRequest(ctx, page, nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return p.statusError(res)
		}
		next = nextPageURL(page, res.Header)
		entries, err = decodePage(io.LimitReader(res.Body, maxPage+1))
		return err
	})
	return entries, next, err
}

// decodePage treats an incomplete page as worth another attempt, a page that is not a listing as not.
func decodePage(r io.Reader) ([]treeEntry, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, &transientError{err: err}
	}
	if len(text) > maxPage {
		return nil, fmt.Errorf("a page of more than %d bytes", maxPage)
	}
	var entries []treeEntry
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("the answer is not a list of files as the hub gives it (%w): check HF_ENDPOINT", err)
	}
	return entries, nil
}

// nextPageURL reads the Link header of a page: <address>; rel="next". Only an address on the same host counts.
func nextPageURL(page *url.URL, h http.Header) *url.URL {
	for link := range strings.SplitSeq(strings.Join(h.Values("Link"), ","), ",") {
		target, attributes, _ := strings.Cut(link, ";")
		target = strings.TrimSpace(target)
		if !strings.HasPrefix(target, "<") || !strings.HasSuffix(target, ">") ||
			!strings.Contains(attributes, `rel="next"`) {
			continue
		}
		next, err := page.Parse(target[1 : len(target)-1])
		if err == nil && next.Host == page.Host && next.Scheme == page.Scheme {
			return next
		}
	}
	return nil
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

func normalizeSHA256(s string) string {
	if s = strings.ToLower(s); sha256Hex.MatchString(s) {
		return s
	}
	return ""
}
