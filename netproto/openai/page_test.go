package openai

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/browsertest"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// shownPage starts a server with a chat page, and a browser for it.
func shownPage(t *testing.T, m *fakeModel, change func(*Options)) (*Server, *browsertest.Browser) {
	if testing.Short() {
		t.Skip("a browser is slow: not with -short")
	}
	s := newTestServer(t, m, func(o *Options) {
		o.Page, o.Hosts = true, []string{"localhost", "127.0.0.1"}
		if change != nil {
			change(o)
		}
	})
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return s, browsertest.Start(t, web.URL)
}

// sent asks a question on the page, and waits until it has a number of complete answers.
func sent(b *browsertest.Browser, question string, answers int) {
	b.Type(question, "Enter")
	b.Until(fmt.Sprintf(`document.querySelectorAll(".assistant").length === %d && `+
		`document.getElementById("stop").hidden`, answers))
}

// textsOf returns the texts of elements of the page.
func textsOf(b *browsertest.Browser, selector string) []string {
	return browsertest.Evaluated[[]string](b, fmt.Sprintf(
		`[...document.querySelectorAll(%q)].map((e) => e.textContent)`, selector))
}

// TestPageInBrowser: a chat at any width, in light or dark mode: output of the model is shown as text, blocks of code
// as blocks, tokens of the cloud are marked, the next question includes the earlier turns, and nothing is wider than
// the page.
func TestPageInBrowser(t *testing.T) {
	m := &fakeModel{answer: func(prompt string, _ answer.Settings) string {
		if strings.Contains(prompt, "markup") {
			return `<img src=x onerror="window.hostile = 1"><script>window.hostile = 1</script>` + "é"
		}
		return "A long line: " + strings.Repeat("w", 300) + "\n\n  ```go\nif a <C {\n\treturn\n}\n```\nEnd."
	}}
	_, b := shownPage(t, m, nil)
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.Open("/", width, scheme)
			b.Until(`document.getElementById("model").textContent === "fish"`)
			sent(b, "first", 1)
			assert.Equal(t, []string{"C"}, textsOf(b, ".assistant .cloud"))
			assert.Equal(t, []string{"if a <C {\n\treturn\n}\n"}, textsOf(b, ".assistant pre code"))
			assert.Equal(t, "End.", textsOf(b, ".assistant p")[1])
			assert.Contains(t, textsOf(b, ".assistant > .about")[0], "1 of the large model")
			sent(b, "markup", 2)
			assert.Equal(t, `<img src=x onerror="window.hostile = 1"><script>window.hostile = 1</script>é`,
				textsOf(b, ".assistant .text")[1])
			assert.Equal(t, "user:first\nassistant:"+m.answer("", answer.Settings{})+"\nuser:markup\nassistant:",
				m.prompts[len(m.prompts)-1])
			assert.LessOrEqual(t, browsertest.Evaluated[int](b, "document.documentElement.scrollWidth"), width)
			assert.LessOrEqual(t, browsertest.Evaluated[int](b,
				`Math.max(...[...document.querySelectorAll("body > *")].map((e) => e.scrollWidth))`), width)
			assert.Equal(t, map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 28)"}[scheme],
				browsertest.Evaluated[string](b, `getComputedStyle(document.body).backgroundColor`))
		}
	}
	assert.False(t, browsertest.Evaluated[bool](b, `"hostile" in window`))
	assert.Empty(t, b.Problems)
}

// TestPageControls: stop, copy, settings, a new chat, errors; all with the keyboard, and with names for screen readers.
func TestPageControls(t *testing.T) {
	m := &fakeModel{step: time.Millisecond, context: 1 << 20, answer: func(prompt string, _ answer.Settings) string {
		if strings.Contains(prompt, "long") {
			return strings.Repeat("x", 100000)
		}
		return "fine\n```\ncode\n"
	}, fail: func(prompt string) error {
		if strings.Contains(prompt, "broken") {
			return fmt.Errorf("a secret of the model")
		}
		return nil
	}}
	s, b := shownPage(t, m, nil)
	b.Open("/", 1280, "light")
	b.Until(`document.activeElement.id === "question"`)
	const set = `document.getElementById("%s").value = "%s"`
	for id, value := range map[string]string{"system": "Be a fish.", "temperature": "0.5", "most": "99999"} {
		browsertest.Evaluated[string](b, fmt.Sprintf(set, id, value))
	}
	b.Type("a long one", "Enter")
	b.Until(`document.querySelector(".assistant .text").textContent.length > 20`)
	b.Type("", "Escape")
	b.Until(`document.querySelector(".assistant > .about").textContent.includes("stopped")`)
	require.Eventually(t, func() bool { return s.Load().Active == 0 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, "system:Be a fish.\nuser:a long one\nassistant:", m.prompts[0])
	assert.Equal(t, 0.5, m.asked[0].Temperature)
	assert.Equal(t, 99999, m.asked[0].MaxTokens)

	browsertest.Evaluated[bool](b, `document.getElementById("fresh").click(), true`)
	sent(b, "short", 1)
	assert.NotContains(t, m.prompts[1], "long", "a new chat")
	b.Call("Browser.grantPermissions", `{"permissions":["clipboardReadWrite","clipboardSanitizedWrite"]}`, nil)
	for i, want := range []string{"short", "fine\n```\ncode\n", "code\n"} {
		browsertest.Evaluated[bool](b, fmt.Sprintf(`document.querySelectorAll("#log button")[%d].click(), true`, i))
		b.Until(`document.getElementById("status").textContent.startsWith("Copied")`)
		assert.Equal(t, want, browsertest.Evaluated[string](b, `navigator.clipboard.readText()`))
		browsertest.Evaluated[bool](b, `say(""), true`)
	}

	browsertest.Evaluated[bool](b, `document.getElementById("question").focus(), true`)
	sent(b, "broken", 2)
	assert.Equal(t, []string{"the answer could not be generated: the server's log says why"}, textsOf(b, ".wrong"))

	var tree struct {
		Nodes []struct {
			Role, Name struct{ Value any }
			Properties []struct {
				Name  string
				Value struct{ Value any }
			}
		}
	}
	b.Call("Accessibility.getFullAXTree", `{}`, &tree)
	named := 0
	for _, n := range tree.Nodes {
		for _, p := range n.Properties {
			if p.Name == "focusable" && p.Value.Value == true && n.Role.Value != "RootWebArea" &&
				n.Role.Value != "main" && n.Role.Value != "generic" && n.Role.Value != "pre" {
				assert.NotEmpty(t, n.Name.Value, "%v", n)
				named++
			}
		}
	}
	assert.Greater(t, named, 6)
	assert.Empty(t, b.Problems)
}

// TestPageKey: a page with an API key can use a server with API keys.
func TestPageKey(t *testing.T) {
	m := &fakeModel{}
	_, b := shownPage(t, m, func(o *Options) { o.Keys = []string{"key-of-the-server"} })
	b.Open("/", 390, "dark")
	b.Until(`document.activeElement.id === "secret"`)
	b.Type("key-of-nobody", "Enter")
	b.Until(`document.getElementById("status").textContent.includes("not the server's")`)
	browsertest.Evaluated[bool](b, `document.getElementById("secret").select(), true`)
	b.Type("key-of-the-server", "Enter")
	b.Until(`document.getElementById("key").hidden && document.activeElement.id === "question"`)
	sent(b, "hi", 1)
	assert.Equal(t, []string{"ok"}, textsOf(b, ".assistant .text"))
	assert.Equal(t, 0, browsertest.Evaluated[int](b, `localStorage.length + sessionStorage.length`))
}

// TestPageServed: the page is one file with a policy that allows only itself and its server, and needs no key; without
// the option there is no page, and other pages may not send requests.
func TestPageServed(t *testing.T) {
	asked := func(s *Server, host, origin string) int {
		r := httptest.NewRequest("POST", "http://"+host+"/v1/completions", strings.NewReader(`{"prompt":"x"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", origin)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Page, o.Keys = true, []string{"key-of-the-server"} })
	w := ask(t, s, "/", "")
	require.Equal(t, 200, w.Code)
	for name, value := range map[string]string{"Content-Type": "text/html; charset=utf-8",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"} {
		assert.Equal(t, value, w.Header().Get(name))
	}
	policy := w.Header().Get("Content-Security-Policy")
	assert.Regexp(t, `^default-src 'none'; style-src 'sha256-[^ ]{44}'; script-src 'sha256-[^ ]{44}'; `, policy)
	assert.NotContains(t, policy, "unsafe")
	for _, word := range []string{"http:", "https:", "src=", "innerHTML", "insertAdjacent", "document.write", "eval("} {
		assert.NotContains(t, w.Body.String(), word)
	}
	assert.Equal(t, 401, asked(s, "a.example", "http://a.example"), "allowed by its origin, but without a key")

	open := newTestServer(t, &fakeModel{}, func(o *Options) { o.Page = true })
	assert.Equal(t, 200, asked(open, "10.0.0.7:8080", "http://10.0.0.7:8080"))
	assert.Equal(t, 200, asked(open, "[fd00::7]:8080", "http://[fd00::7]:8080"))
	assert.Equal(t, 403, asked(open, "10.0.0.7:8080", "http://10.0.0.7:8081"))
	assert.Equal(t, 403, asked(open, "evil.example:8080", "http://evil.example:8080"),
		"may be any page after DNS rebinding")
	assert.Equal(t, 404, ask(t, open, "/index.html", "").Code)
	named := newTestServer(t, &fakeModel{}, func(o *Options) { o.Page, o.Hosts = true, []string{"localhost"} })
	assert.Equal(t, 200, asked(named, "localhost:8080", "http://LocalHost:8080"))
	assert.Equal(t, 403, asked(named, "localhost:8080", "http://localhost:8081"))

	off := newTestServer(t, &fakeModel{}, nil)
	assert.Equal(t, 404, ask(t, off, "/", "").Code)
	assert.Equal(t, 403, asked(off, "127.0.0.1", "http://127.0.0.1"))
}

// TestHost: with allowed names, all requests for other hosts are refused.
func TestHost(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, func(o *Options) {
		o.Page, o.Hosts = true, []string{"localhost", "127.0.0.1", "::1", "chat.example"}
	})
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:8080": 200, "localhost.:80": 200, "127.0.0.1:1": 200, "[::1]:8080": 200,
		"[::1]": 200, "chat.example": 200, "": 400, ":8080": 400,
		"evil.example": 403, "evil.example:8080": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
		"10.0.0.1": 403, "xlocalhost": 403, "localhost:80:80": 403, "localhost@evil.example": 403,
	} {
		for _, path := range []string{"/", "/health", "/v1/models"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			assert.Equal(t, want, w.Code, "%s %s", host, path)
			if want != 200 {
				assert.Equal(t, codeHost, at(object(t, w.Body.Bytes()), "error", "code"))
			}
		}
	}
}

// TestRefusedAreCounted: each refused request is an event, and has a line in the log, up to a rate, without secrets.
func TestRefusedAreCounted(t *testing.T) {
	bubble.Test(t, testRefusedAreCounted)
}

func testRefusedAreCounted(t *testing.T) {
	var events []Event
	var log strings.Builder
	s := newTestServer(t, &fakeModel{}, func(o *Options) {
		o.Keys, o.Hosts = []string{"key-of-the-server"}, []string{"example.com"}
		o.Events = func(e Event) { events = append(events, e) }
		o.Log = slog.New(slog.NewJSONHandler(&log, nil))
	})
	key := []string{"Authorization", "Bearer key-of-the-server"}
	ask(t, s, "/v1/models?key=hidden-1", "", "Authorization", "Bearer hidden-2")
	ask(t, s, "/v1/files?token=hidden-3", "", key...)
	ask(t, s, "/v1/models", "", "Origin", "https://evil.example")
	ask(t, s, "/v1/models/shark", "", key...)
	ask(t, s, "/v1/models", "{}", key...)
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "evil.example"
	s.ServeHTTP(httptest.NewRecorder(), r)
	want := []Event{{Status: 401, Code: "invalid_api_key"}, {Status: 404, Code: "unknown_url"},
		{Status: 403, Code: codeOrigin}, {Status: 404, Code: "model_not_found"},
		{Status: 405, Code: "method_not_allowed"}, {Status: 403, Code: codeHost}}
	assert.Equal(t, want, events)
	assert.NotContains(t, log.String(), "hidden")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, len(want))
	for i, e := range want {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &line))
		assert.EqualValues(t, e.Status, line["status"])
		assert.Equal(t, e.Code, line["code"])
		assert.Equal(t, "192.0.2.1", line["from"])
	}
	assert.Contains(t, lines[1], `"path":"/v1/files"`)
	assert.Contains(t, lines[2], "https://evil.example")
	assert.Contains(t, lines[5], "evil.example")
	for range 1000 {
		ask(t, s, "/v1/models", "")
	}
	assert.Len(t, events, 1006)
	assert.Equal(t, 20, strings.Count(log.String(), "\n"))
	for _, left := range []string{`"left_out":986`, `"from":"192.0.2.1"}`} {
		time.Sleep(time.Second) // in virtual time
		log.Reset()
		ask(t, s, "/v1/models", "")
		assert.Contains(t, log.String(), left)
	}
}
