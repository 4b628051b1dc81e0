package serve

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"strings"
)

// pageFiles are the parts of the chat page. The page is one file: page.html, with the others in the place of their
// names.
//
//go:embed page/page.html page/page.css page/*.js page/markdown-it-15.0.3/*.js
var pageFiles embed.FS

// assemblePage returns the chat page, and its content security policy: it allows the style and the scripts in the page,
// by their hashes, and requests to this server, and nothing else.
func assemblePage() (html, policy string) {
	read := func(name string) string {
		b, _ := pageFiles.ReadFile("page/" + name) // never an error: it is embedded
		return string(b)
	}
	html = read("page.html")
	insert := func(name string) string {
		text := read(name)
		html = strings.Replace(html, ">"+name+"</", ">"+text+"</", 1)
		sum := sha256.Sum256([]byte(text))
		return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	style := insert("page.css")
	scripts := insert("markdown-it-15.0.3/markdown-it.umd.min.js") + insert("markdown.js") + insert("chat.js")
	return html, "default-src 'none'; style-src" + style + "; script-src" + scripts + "; img-src data:; " +
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
}

func pageHandler() http.HandlerFunc {
	html, policy := assemblePage()
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write([]byte(html)) // an error means that the client has gone
	}
}
