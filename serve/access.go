package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// keys are the hashes of the accepted keys.
type keys [][sha256.Size]byte

func newKeys(all []string) (k keys) {
	for _, key := range all {
		k = append(k, sha256.Sum256([]byte(key)))
	}
	return k
}

// acceptsKey reports whether a key is accepted. Its time depends neither on which key it is nor on how much of it is
// right.
func (k keys) acceptsKey(key string) bool {
	got, ok := sha256.Sum256([]byte(key)), 0
	for _, want := range k {
		ok |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return ok == 1
}

// Codes of errors in a request's headers.
const (
	codeHost   = "host_not_allowed"
	codeOrigin = "origin_not_allowed"
)

// allowRequest reports whether a request may proceed. Otherwise it has been answered.
func (s *Server) allowRequest(w http.ResponseWriter, r *http.Request) bool {
	wrong := s.verifyHost(r)
	if wrong == nil {
		wrong = s.verifyOrigin(w, r)
	}
	if wrong == nil && answerPreflight(w, r) {
		return false
	}
	if wrong == nil {
		wrong = s.authorizeRequest(w, r)
	}
	if wrong != nil {
		s.rejectRequest(w, r, wrong)
	}
	return wrong == nil
}

// authorizeRequest refuses requests without an accepted key. The page and the health check need none.
func (s *Server) authorizeRequest(w http.ResponseWriter, r *http.Request) *request.Error {
	if len(s.keys) == 0 || r.URL.Path == "/health" || s.o.Page && r.URL.Path == "/" {
		return nil
	}
	if s.acceptedKey(r) != "" {
		return nil
	}
	say := "this API key is not the server's: give one that is in its list"
	if bearer, other := shownKeys(r); bearer == "" && other == "" {
		say = "there is no API key: send it in the header Authorization: Bearer KEY, or X-Api-Key: KEY"
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	return request.Refuse(http.StatusUnauthorized, "invalid_api_key", "%s", say)
}

func shownKeys(r *http.Request) (bearer, other string) {
	if scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		bearer = strings.TrimSpace(key)
	}
	return bearer, r.Header.Get("X-Api-Key")
}

// acceptedKey returns the request's key; "" if the server does not accept it.
func (s *Server) acceptedKey(r *http.Request) string {
	bearer, other := shownKeys(r)
	switch {
	case bearer != "" && s.keys.acceptsKey(bearer):
		return bearer
	case other != "" && s.keys.acceptsKey(other):
		return other
	}
	return ""
}

// verifyHost refuses requests for other names than those of the server. The owner of a web page can make the page's
// name resolve to the address of this machine (DNS rebinding): its scripts could then read the server's responses.
func (s *Server) verifyHost(r *http.Request) *request.Error {
	if len(s.o.Hosts) == 0 {
		return nil
	}
	name := hostWithoutPort(r.Host)
	if name == "" {
		return request.Refuse(http.StatusBadRequest, codeHost, "the request has no header Host: give the address of "+
			"this server, such as 127.0.0.1:8080")
	}
	for _, h := range s.o.Hosts {
		if strings.EqualFold(name, h) {
			return nil
		}
	}
	return request.Refuse(http.StatusForbidden, codeHost, "the request is for the host %s, which is no name of this "+
		"server: use http://localhost or http://127.0.0.1 with its port, or allow the name with --cors-origin",
		request.Shown(r.Host))
}

func hostWithoutPort(header string) string {
	u := url.URL{Host: header}
	return strings.TrimSuffix(u.Hostname(), ".")
}

// verifyOrigin refuses requests of web pages that are not allowed: otherwise any page that a user of this machine opens
// could use the model.
func (s *Server) verifyOrigin(w http.ResponseWriter, r *http.Request) *request.Error {
	from := r.Header.Get("Origin")
	if from == "" {
		return nil
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !slices.Contains(s.o.Origins, from) && !slices.Contains(s.o.Origins, "*") && !s.isFromPage(r) {
		return request.Refuse(http.StatusForbidden, codeOrigin, "web pages of %s may not ask this server: it allows "+
			"them with --cors-origin", request.Shown(from))
	}
	h.Set("Access-Control-Allow-Origin", from)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After, "+ignoredHeader)
	return nil
}

// isFromPage reports whether a request is from the server's own page. Equal origin and host prove this only if another
// page cannot have that host: if host names or keys are checked, or if the host is an IP address.
func (s *Server) isFromPage(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return s.o.Page && err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) &&
		(len(s.o.Hosts) > 0 || len(s.keys) > 0 || net.ParseIP(hostWithoutPort(r.Host)) != nil)
}

func answerPreflight(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Origin") == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
	if want := r.Header.Get("Access-Control-Request-Headers"); want != "" {
		h.Set("Access-Control-Allow-Headers", want)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
