package hub

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLongAddresses: if a server redirects to an address of thousands of letters, no error shows the whole address, or
// the whole of an equally long message of the server.
func TestLongAddresses(t *testing.T) {
	long := "/" + strings.Repeat("a", 5000)
	for _, last := range []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) {
			w.Header().Set("X-Error-Message", long)
			w.WriteHeader(http.StatusTeapot)
		},
		func(w http.ResponseWriter) {
			w.Header().Set("Location", "file://"+long)
			w.WriteHeader(http.StatusFound)
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == long {
				last(w)
				return
			}
			http.Redirect(w, r, long, http.StatusFound)
		}))
		var said []string
		_, err := Pull(t.Context(), Ref{Owner: "o", Name: "n", Revision: "main", File: "a.gguf"}, Options{
			Dir: t.TempDir(), Endpoint: server.URL, Attempts: 1,
			Notice: func(text string) { said = append(said, text) },
		})
		server.Close()
		assert.Error(t, err)
		for _, text := range append(said, err.Error()) {
			assert.Less(t, len(text), 1000)
		}
	}
}
