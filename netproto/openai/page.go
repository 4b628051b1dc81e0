package openai

import (
	"crypto/sha256"
	_ "embed" // for page.html
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// pageHTML is the chat page: one file, with its style and its script.
//
//go:embed page.html
var pageHTML string

// page returns the handler of the chat page. Its content security policy allows the style and the script in the page,
// by their hashes, and requests to this server, and nothing else.
func page() http.HandlerFunc {
	hash := func(tag string) string {
		_, rest, _ := strings.Cut(pageHTML, "<"+tag+">")
		text, _, _ := strings.Cut(rest, "</"+tag+">")
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	policy := fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; img-src data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "+
		"trusted-types 'none'", hash("style"), hash("script"))
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write([]byte(pageHTML)) // an error means that the client has gone
	}
}
