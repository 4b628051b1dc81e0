package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
)

// engine starts a server that answers like engines, with the request in its replies.
func engine(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error": "Not Found"}`, http.StatusNotFound)
	})
	mux.HandleFunc("POST /completion", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Date-Of-Birth", "secret")
		io.WriteString(w, `{"tokens": [1], "logprob": -1.1920928955078125e-07, "text": "<b>", "asked": `+string(b)+
			`, "type": "`+r.Header.Get("Content-Type")+`"}`)
	})
	mux.HandleFunc("GET /key", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusUnauthorized)
		}
		io.WriteString(w, r.Header.Get("Authorization")[len("Bearer "):]+r.Header.Get("Content-Type"))
	})
	mux.Handle("GET /moved", http.RedirectHandler("/key", http.StatusTemporaryRedirect))
	mux.HandleFunc("GET /list", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "[1]") })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// result holds the results of a run.
type result struct {
	code           int
	stdout, stderr string
	folder         string
}

func (r result) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.folder, name+".json"))
	require.NoError(t, err)
	return string(b)
}

// record runs the command on the cases, with the right key.
func record(t *testing.T, cases string) result {
	t.Helper()
	list := filepath.Join(t.TempDir(), "cases.json")
	require.NoError(t, os.WriteFile(list, []byte(cases), 0o644))
	r := result{folder: filepath.Join(t.TempDir(), "made", "here")}
	var stdout, stderr strings.Builder
	args := []string{"-url", engine(t).URL + "/", "-engine", "fake 1", "-key", "right", "-cases", list, "-out",
		r.folder}
	r.code = recordCases(context.Background(), args, "2026-11-22", &stdout, &stderr)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

func TestTheTranscriptHasTheRequestAndTheReplyAsTheyWere(t *testing.T) {
	r := record(t, `[{"name": "ask-k5", "path": "/completion", "body": {"prompt": [1, 2], "n_predict": 1}}]`)
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, `{"engine":"fake 1","recorded":"2026-11-22",`+
		`"request":{"method":"POST","path":"/completion","body":{"prompt":[1,2],"n_predict":1}},`+
		`"response":{"status":200,"headers":{"content-type":"application/json"},"body":`+
		`{"tokens":[1],"logprob":-1.1920928955078125e-07,"text":"<b>","asked":{"prompt":[1,2],"n_predict":1},`+
		`"type":"application/json"}}}`+"\n", r.file(t, "ask-k5"))
	assert.Contains(t, r.stdout, "ask-k5.json\n")
}

func TestTheKeyIsSentAndNotWrittenDownButAWrongOneIs(t *testing.T) {
	r := record(t,
		`[{"name": "right", "path": "/key"}, {"name": "wrong", "path": "/key", "key": "bad", "status": 401}]`)
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.file(t, "right"), `"request":{"method":"GET","path":"/key"},`)
	assert.Contains(t, r.file(t, "right"), `"text":"right"`,
		"the engine got the key, and no content type without a body")
	assert.Contains(t, r.file(t, "wrong"), `"request":{"method":"GET","path":"/key","key":"bad"},`)
	assert.Contains(t, r.file(t, "wrong"), `"status":401,`+
		`"headers":{"content-type":"text/plain; charset=utf-8","retry-after":"7"},"text":"bad"`)
}

func TestAnUnexpectedStatusIsReportedAndTheOthersAreRecorded(t *testing.T) {
	r := record(t, `[{"name": "gone", "path": "/none"}, {"name": "none", "path": "/none", "status": 404},
		{"name": "moved", "path": "/moved", "status": 307},
		{"name": "posted", "path": "/key", "method": "POST", "status": 404}]`)
	assert.Equal(t, 1, r.code)
	assert.Equal(t, `record: case gone: status 404, expected 200: {"error": "Not Found"}`+"\n\n", r.stderr)
	assert.NoFileExists(t, filepath.Join(r.folder, "gone.json"))
	assert.NotContains(t, r.stdout, "gone")
	assert.Contains(t, r.file(t, "none"), `"body":{"error":"Not Found"}`)
	assert.Contains(t, r.file(t, "moved"), `"status":307`, "redirects are recorded")
	assert.Contains(t, r.file(t, "posted"), `"method":"POST"`)
}

func TestOfALongReplySomeFieldsCanBeKept(t *testing.T) {
	r := record(t, `[{"name": "some", "path": "/completion", "body": 3, "keep": ["text", "asked"]},
		{"name": "no-field", "path": "/completion", "body": 3, "keep": ["token"]},
		{"name": "no-object", "path": "/list", "keep": ["text"]}]`)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.file(t, "some"), `"kept":["text","asked"],"body":{"asked":3,"text":"<b>"}}`)
	assert.Contains(t, r.stderr, `case no-field: keep: the reply has no field "token"`)
	assert.Contains(t, r.stderr, "case no-object: keep: json: cannot unmarshal array")
}

func TestWrongListsOfCases(t *testing.T) {
	for cases, want := range map[string]string{
		`[{"name": "a", "path": "/a", "bdoy": 1}]`: `unknown field "bdoy"`,
		`[`: "cases.json: unexpected EOF",
	} {
		r := record(t, cases)
		assert.Equal(t, 1, r.code, cases)
		assert.Contains(t, r.stderr, want)
	}
}

func TestUsage(t *testing.T) {
	good := []string{"-url", "http://127.0.0.1:1", "-engine", "e", "-cases", "c", "-out", "o"}
	for i := 0; i < len(good); i += 2 {
		args := append(append([]string{}, good[:i]...), good[i+2:]...)
		assert.Equal(t, 2, recordCases(t.Context(), args, "", io.Discard, io.Discard), "without %s", good[i])
	}
	var stderr strings.Builder
	assert.Equal(t, 2, recordCases(t.Context(), append(good, "more"), "", io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "no arguments beside flags")
	assert.Equal(t, 2, recordCases(t.Context(), []string{"-nothing"}, "", io.Discard, &stderr))
	assert.Equal(t, 1, recordCases(t.Context(), good, "", io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "open c: ")
}

func TestAnInterruptEndsIt(t *testing.T) {
	asked, release := make(chan bool), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	}))
	defer s.Close()
	defer close(release)
	list := filepath.Join(t.TempDir(), "cases.json")
	cases := `[{"name": "never", "path": "/"}, {"name": "then", "path": "/"}]`
	require.NoError(t, os.WriteFile(list, []byte(cases), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	var stderr strings.Builder
	args := []string{"-url", s.URL, "-engine", "e", "-cases", list, "-out", t.TempDir()}
	assert.Equal(t, 1, recordCases(ctx, args, "", io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "case never: ")
	assert.Contains(t, stderr.String(), "context canceled")
}

// The recordings match the lists: after a change of a list the case must be recorded again.
func TestEveryCaseIsRecordedAsItIsAskedNow(t *testing.T) {
	lists, err := filepath.Glob("cases/*.json")
	require.NoError(t, err)
	recorded := 0
	for _, list := range lists {
		engine, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(list), ".json"), "-")
		all, err := readCases(list)
		require.NoError(t, err)
		for _, c := range all {
			b, err := os.ReadFile(filepath.Join("../../../netproto/upstream/testdata", engine, c.Name+".json"))
			require.NoError(t, err)
			var got fakeengine.Transcript
			require.NoError(t, json.Unmarshal(b, &got), c.Name)
			want := fakeengine.RecordedRequest{Method: c.Method, Path: c.Path, Key: c.Key, Body: c.Body}
			assert.JSONEq(t, jsonOf(t, want), jsonOf(t, got.Request), c.Name)
			assert.Equal(t, c.Status, got.Response.Status, c.Name)
			assert.Equal(t, c.Keep, got.Response.Kept, c.Name)
			assert.NotEmpty(t, got.Engine)
			recorded++
		}
	}
	files, err := filepath.Glob("../../../netproto/upstream/testdata/*/*.json")
	require.NoError(t, err)
	assert.Len(t, files, recorded, "a transcript that is in no list")
}

func jsonOf(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
