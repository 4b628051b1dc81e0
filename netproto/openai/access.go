package openai

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
)

// keys are the hashes of the keys that are taken.
type keys [][sha256.Size]byte

func newKeys(all []string) (k keys) {
	for _, key := range all {
		k = append(k, sha256.Sum256([]byte(key)))
	}
	return k
}

// take reports whether a key is one of them. How long it takes does not depend on which, nor on how much is right.
func (k keys) take(key string) bool {
	got, ok := sha256.Sum256([]byte(key)), 0
	for _, want := range k {
		ok |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return ok == 1
}

// allow reports whether a request may go on. Otherwise it has been answered.
func (s *Server) allow(w http.ResponseWriter, r *http.Request) bool {
	if !s.origin(w, r) {
		return false
	}
	if len(s.keys) == 0 || r.URL.Path == "/health" {
		return true
	}
	if s.key(r) != "" {
		return true
	}
	say := "this API key is not the server's: give one that is in its list"
	if bearer, other := shownKeys(r); bearer == "" && other == "" {
		say = "there is no API key: send it in the header Authorization: Bearer KEY, or X-Api-Key: KEY"
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	send(w, r, &Error{http.StatusUnauthorized, say, invalidRequest, "", "invalid_api_key"})
	return false
}

// shownKeys returns the keys that a request shows in either header; "" for none.
func shownKeys(r *http.Request) (bearer, other string) {
	if scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		bearer = strings.TrimSpace(key)
	}
	return bearer, r.Header.Get("X-Api-Key")
}

// key returns the key that a request shows and the server has; "" if there is none.
func (s *Server) key(r *http.Request) string {
	bearer, other := shownKeys(r)
	switch {
	case bearer != "" && s.keys.take(bearer):
		return bearer
	case other != "" && s.keys.take(other):
		return other
	}
	return ""
}

// origin answers what browsers ask before a request, and refuses pages that may not ask: without that, any page that a
// user of this machine looks at could have the model work.
func (s *Server) origin(w http.ResponseWriter, r *http.Request) bool {
	from := r.Header.Get("Origin")
	if from == "" {
		return true
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !slices.Contains(s.o.Origins, from) && !slices.Contains(s.o.Origins, "*") {
		send(w, r, &Error{http.StatusForbidden, "web pages of " + shown(from) +
			" may not ask this server: it allows them with " +
			"--cors-origin", invalidRequest, "", "origin_not_allowed"})
		return false
	}
	h.Set("Access-Control-Allow-Origin", from)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After")
	if r.Method != http.MethodOptions {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
	if want := r.Header.Get("Access-Control-Request-Headers"); want != "" {
		h.Set("Access-Control-Allow-Headers", want)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return false
}
