package client

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ticketFolder is a tls.ClientSessionCache in a folder of the user, so that 0-RTT works in a later process. Each pair
// of gateway and pin has one file. Only one process takes a ticket, which removes the file. Unusable files are removed.
// If a file cannot be written there is no ticket, and the next connection takes one round trip more.
type ticketFolder string

const ticketSuffix = ".ticket"

func (d ticketFolder) ticketPath(key [sha256.Size]byte) string {
	return filepath.Join(string(d), hex.EncodeToString(key[:])+ticketSuffix)
}

// Get removes the ticket for a key from the folder and returns it.
func (d ticketFolder) Get(key string) (*tls.ClientSessionState, bool) {
	digest := sha256.Sum256([]byte(key))
	b, err := takeTicketFile(d.ticketPath(digest))
	if err != nil {
		return nil, false
	}
	s, err := parseTicketFile(b, digest, time.Now())
	return s, err == nil
}

// Put stores the ticket for a key, or removes it when s is nil.
func (d ticketFolder) Put(key string, s *tls.ClientSessionState) {
	digest := sha256.Sum256([]byte(key))
	if s == nil {
		_ = os.Remove(d.ticketPath(digest)) // usually there is none
		return
	}
	d.removeExpired(time.Now())
	if b, err := newTicketFile(digest, s, time.Now()); err == nil && len(b) <= ticketLongest {
		_ = d.writeAtomically(d.ticketPath(digest), b) // without it the next connection takes one round trip more
	}
}

// takeTicketFile removes a file and reads it: if several processes try, only one succeeds. It reads hardly more than
// the maximum size of a ticket.
func takeTicketFile(path string) ([]byte, error) {
	mine := path + "-" + rand.Text() + ticketSuffix
	if err := os.Rename(path, mine); err != nil {
		return nil, err
	}
	defer os.Remove(mine) // else removeExpired removes it
	file, err := os.Open(mine)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, ticketLongest+1))
}

// writeAtomically creates or replaces a file that only the user can read.
func (d ticketFolder) writeAtomically(path string, b []byte) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(string(d), "new-*"+ticketSuffix) // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

// removeExpired removes tickets that were never used and files that an interrupted process left.
func (d ticketFolder) removeExpired(now time.Time) {
	all, _ := fs.Glob(os.DirFS(string(d)), "*"+ticketSuffix) // fails only for an invalid pattern
	for _, name := range all {
		path := filepath.Join(string(d), name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > ticketLasts {
			_ = os.Remove(path) // another process may have removed it
		}
	}
}
