package serve

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
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// shownPage starts a server with a chat page, and a browser for it.
func shownPage(t *testing.T, m *fakeModel, change func(*Options)) (*httptest.Server, *browsertest.Browser) {
	if testing.Short() {
		t.Skip("a browser is slow: not with -short")
	}
	web := httptest.NewServer(newTestServer(t, m, func(o *Options) {
		o.Page, o.Hosts = true, []string{"localhost", "127.0.0.1"}
		if change != nil {
			change(o)
		}
	}))
	t.Cleanup(web.Close)
	return web, browsertest.Start(t, web.URL)
}

// sent asks a question on the page, and waits until it has a number of answers.
func sent(b *browsertest.Browser, question string, answers int) {
	b.Type(question, "Enter")
	answered(b, answers)
}

// answered waits until no answer is being generated, and the page has a number of them.
func answered(b *browsertest.Browser, answers int) {
	b.Until(fmt.Sprintf(`document.querySelectorAll(".assistant").length === %d && `+
		`document.getElementById("stop").hidden`, answers))
}

// press clicks on a button, by its id or its name for screen readers; of several on the last one.
func press(b *browsertest.Browser, name string) {
	browsertest.Evaluated[bool](b, fmt.Sprintf(
		`([...document.querySelectorAll("[id='%[1]s'], [aria-label='%[1]s']")].at(-1).click(), true)`, name))
}

// textsOf returns the texts of elements of the page.
func textsOf(b *browsertest.Browser, selector string) []string {
	return browsertest.Evaluated[[]string](b, fmt.Sprintf(
		`[...document.querySelectorAll(%q)].map((e) => e.textContent)`, selector))
}

// routed makes the large model of a test change c to C and agree with A; it is late for L, and not asked for U.
func routed(t *engine.Token) {
	switch t.ID {
	case 'C':
		t.Local, t.Asked = 'c', true
	case 'A':
		t.Origin, t.Asked = "cloud", true
	case 'L', 'U':
		t.Origin, t.Asked = "edge-timeout", t.ID == 'L'
	}
}

// theCloud describes the large model of a test.
func theCloud() Cloud {
	return Cloud{To: "gw:1", Model: "shark", Connected: true, Policy: "margin", Budget: 0.07}
}

// TestPageInBrowser: a chat at any width, in light or dark mode: Markdown becomes elements, other markup stays text,
// tokens of the large model are marked in it, the next question includes the earlier turns, and nothing is wider than
// the page.
func TestPageInBrowser(t *testing.T) {
	const markdown = "# Title AC\n1 **bold U** `co*de*`, $a_1*b_2*c$ and \\(x_1_\\), cost $5 or $6.\n- one L\n- two\n" +
		"\n|a|b|\n|-|-|\n|é|2|\n\n[web](https://a.example/x) [bad](javascript:hostile()) [no](ftp://a) " +
		"![dot](https://a.b/)\n\n$$\nx_1*y\n- z_2*\n$$\n\n<img src=x onerror=\"window.hostile = 1\">&amp;<b>\n\n" +
		"```go\nif a <C {\n\treturn\n}\n"
	m := &fakeModel{change: routed, answer: func(string, terms.Settings) string {
		return markdown + strings.Repeat("w", 300)
	}}
	_, b := shownPage(t, m, func(o *Options) { o.Cloud = theCloud })
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.Open("/", width, scheme)
			b.Until(`document.getElementById("model").textContent === "fish + shark"`)
			assert.Equal(t, []string{"fish, on this device", "shark", "gw:1", "asked for at most 7% of the tokens, " +
				"the least certain ones", "connected"}, textsOf(b, "#hello dd"))
			sent(b, "first", 1)
			for selector, want := range map[string][]string{
				"h3": {"Title AC"}, "strong": {"bold U"}, "p code": {"co*de*"}, "li": {"one L", "two"},
				".math": {"$a_1*b_2*c$", "\\(x_1_\\)", "$$\nx_1*y\n- z_2*\n$$"}, "td": {"é", "2"}, "a": {"web", "dot"},
				"pre code": {"if a <C {\n\treturn\n}\n" + strings.Repeat("w", 300)},
				".changed": {"C", "C"}, ".cloud:not(.changed)": {"A"}, ".late": {"L"}, "img": {}, "b": {},
				"p:last-of-type": {"<img src=x onerror=\"window.hostile = 1\">&<b>"},
			} {
				assert.Equal(t, want, textsOf(b, ".assistant .text "+selector), selector)
			}
			assert.Regexp(t, `^\d+ tokens, asked 4, changed 2, 1 not answered in time, .* tokens/s, `+
				`sent 6 tokens of text \(14 bytes\) to gw:1$`, textsOf(b, ".assistant > .about")[0])
			press(b, "Source of the answer")
			assert.Equal(t, []string{m.answer("", terms.Settings{})}, textsOf(b, ".assistant .text"))
			sent(b, "second", 2)
			assert.Equal(t, "user:first\nassistant:"+m.answer("", terms.Settings{})+"\nuser:second\nassistant:",
				m.prompts[len(m.prompts)-1])
			assert.LessOrEqual(t, browsertest.Evaluated[int](b, `Math.max(document.documentElement.scrollWidth, `+
				`...[...document.querySelectorAll("body > *")].map((e) => e.scrollWidth))`), width)
			assert.Equal(t, map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 28)"}[scheme],
				browsertest.Evaluated[string](b, `getComputedStyle(document.body).backgroundColor`))
		}
	}
	assert.False(t, browsertest.Evaluated[bool](b, `"hostile" in window`))
	assert.Empty(t, b.Problems)
}

// TestPageGrows: at each length of a Markdown text, what the page adds piece by piece equals what it shows at once.
func TestPageGrows(t *testing.T) {
	_, b := shownPage(t, &fakeModel{}, nil)
	b.Open("/", 390, "dark")
	const text = "# A\\n\\np\\n- b *c*\\n  - d\\n\\n1. e\\n\\n> f\\n> g\\n\\n```go\\nh\\n```" +
		"\\n|i|j|\\n|-|-|\\n|k|l|\\n\\n$$\\nm\\n$$\\n\\nn &lt; \\\\* o\\n\\n&copy; q\\n\\n© r"
	assert.Equal(t, "", browsertest.Evaluated[string](b, `(() => {
		const text = "`+text+`", grown = document.createElement("div"), view = new View(grown, codeBox);
		const tokens = text.match(/[^]{1,3}/g)
			.map((of, i) => ({ start: 3 * i, end: 3 * i + of.length, of: { text: of } }));
		for (let n = 1; n <= text.length; n++) {
			const part = tokens.filter((t) => t.start < n), whole = document.createElement("div");
			view.show(text.slice(0, n), part);
			new View(whole, codeBox).show(text.slice(0, n), part);
			if (whole.innerHTML !== grown.innerHTML) return whole.innerHTML + " and " + grown.innerHTML;
			if (whole.querySelector("h4")) return "the beginning of a list makes a heading";
		}
		return [...grown.querySelectorAll(".t")]
			.map((e) => [e, e.token].map((x) => (x.text ?? x.textContent).replace(/[<©]/, "&").trim()))
			.filter(([shown, token]) => !token.includes(shown)).join();
	})()`), "each part of the text is in the span of its token")
}

// newControlledModel returns a model with a short answer, and those for questions with "long" and "secret".
func newControlledModel() *fakeModel {
	return &fakeModel{step: time.Millisecond, context: 1 << 20, change: routed,
		answer: func(prompt string, _ terms.Settings) string {
			if strings.Contains(prompt, "long") {
				return strings.Repeat("x", 100000)
			}
			if strings.Contains(prompt, "secret") {
				return "hidden"
			}
			return "fine C\n```\ncode\n"
		}}
}

// last returns the last prompt and its settings.
func (m *fakeModel) last() (string, terms.Settings) {
	return m.prompts[len(m.prompts)-1], m.asked[len(m.asked)-1]
}

// openChat opens the page, with a new chat.
func openChat(b *browsertest.Browser) {
	b.Open("/", 1280, "light")
	b.Until(`document.activeElement.id === "question" && !document.getElementById("keep").hidden`)
}

// setValue writes into a field of the page.
func setValue(b *browsertest.Browser, id, value string) {
	browsertest.Evaluated[string](b, fmt.Sprintf(`document.getElementById("%s").value = "%s"`, id, value))
}

// TestPageControls: stop, copy, settings, edit, delete, regenerate, local messages, a new chat, tokens; all with the
// keyboard, and with names for screen readers.
func TestPageControls(t *testing.T) {
	m := newControlledModel()
	web, b := shownPage(t, m, func(o *Options) { o.Cloud = theCloud })
	checkStop(t, b, web, m)
	openChat(b)
	checkTurns(t, b, m)
	checkControlNames(t, b)
	press(b, "fresh")
	assert.Empty(t, textsOf(b, "article"))
	assert.Len(t, textsOf(b, "#hello:not([hidden])"), 1)
	assert.Empty(t, b.Problems)
}

// checkStop stops an answer with settings of the page.
func checkStop(t *testing.T, b *browsertest.Browser, web *httptest.Server, m *fakeModel) {
	openChat(b)
	for id, value := range map[string]string{"system": "Be a fish.", "temperature": "0.5", "most": "99999"} {
		setValue(b, id, value)
	}
	b.Type("a long one", "Enter")
	b.Until(`document.querySelector(".assistant .text").textContent.length > 20`)
	b.Type("", "Escape")
	b.Until(`document.querySelector(".assistant > .about").textContent.includes("stopped")`)
	require.Eventually(t, func() bool { return web.Config.Handler.(*Server).Load().Active == 0 }, 10*time.Second,
		time.Millisecond)
	prompt, asked := m.last()
	assert.Equal(t, "system:Be a fish.\nuser:a long one\nassistant:", prompt)
	assert.Equal(t, 0.5, asked.Temperature)
	assert.Equal(t, 99999, asked.MaxTokens)
}

// checkTurns asks questions in a new chat, and copies, regenerates, deletes and edits them, also local ones.
func checkTurns(t *testing.T, b *browsertest.Browser, m *fakeModel) {
	sent(b, "short", 1)
	prompt, asked := m.last()
	assert.Equal(t, "user:short\nassistant:", prompt, "a new chat")
	assert.Zero(t, asked.Temperature, "as in chat")
	assert.Equal(t, 1024, asked.MaxTokens, "as in chat")
	assert.False(t, asked.Local)
	b.Call("Browser.grantPermissions", `{"permissions":["clipboardReadWrite","clipboardSanitizedWrite"]}`, nil)
	for name, want := range map[string]string{"the question": "short", "the answer": "fine C\n```\ncode\n",
		"code": "code\n"} {
		press(b, "Copy "+name)
		b.Until(fmt.Sprintf(`document.getElementById("status").textContent === "Copied %s"`, name))
		assert.Equal(t, want, browsertest.Evaluated[string](b, `navigator.clipboard.readText()`))
	}
	browsertest.Evaluated[bool](b, `document.querySelector(".assistant .text").focus(), true`)
	b.Type("", "ArrowDown")
	assert.Equal(t, []string{"“C” The large model's, in place of the small one's “c”. " +
		"The small model's confidence: 50%."}, textsOf(b, "#tip:not([hidden])"))

	press(b, "Regenerate the answer")
	answered(b, 1)
	prompt, asked = m.last()
	assert.Equal(t, "user:short\nassistant:", prompt)
	assert.Equal(t, 0.8, asked.Temperature, "another answer")
	press(b, "local")
	browsertest.Evaluated[bool](b, `document.getElementById("question").focus(), true`)
	sent(b, "secret", 2)
	prompt, asked = m.last()
	assert.Equal(t, "user:short\nassistant:fine C\n```\ncode\n\nuser:secret\nassistant:", prompt)
	assert.True(t, asked.Local)
	press(b, "local")
	sent(b, "later", 3)
	_, asked = m.last()
	assert.True(t, asked.Local, "as it is asked with a local message")
	press(b, "Delete question and answer")
	press(b, "Edit the question")
	setValue(b, "question", "")
	sent(b, "other", 2)
	prompt, asked = m.last()
	assert.Equal(t, "user:short\nassistant:fine C\n```\ncode\n\nuser:other\nassistant:", prompt)
	assert.False(t, asked.Local)
}

// checkControlNames requires a name for screen readers of everything that can be focused.
func checkControlNames(t *testing.T, b *browsertest.Browser) {
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
				n.Role.Value != "main" {
				assert.NotEmpty(t, n.Name.Value, "%v", n)
				named++
			}
		}
	}
	assert.Greater(t, named, 20)
}

// TestPageErrors: errors have the page's own words and say what to do. A question can be asked again, and an answer
// that failed is not part of the conversation. A key for the server is in the memory of the page only.
func TestPageErrors(t *testing.T) {
	m := &fakeModel{context: 60, fail: func(prompt string) (err error) {
		if strings.Contains(prompt, "broken") {
			err = fmt.Errorf("a secret of the model")
		}
		return err
	}}
	web, b := shownPage(t, m, func(o *Options) { o.Keys = []string{"key-of-the-server"} })
	b.Open("/", 390, "light")
	b.Until(`document.activeElement.id === "secret"`)
	b.Type("key-of-nobody", "Enter")
	b.Until(`document.getElementById("status").textContent.includes("not the server's")`)
	browsertest.Evaluated[bool](b, `document.getElementById("secret").select(), true`)
	b.Type("key-of-the-server", "Enter")
	b.Until(`document.getElementById("key").hidden && document.activeElement.id === "question"`)
	wrong := func(question, want string, answers int) {
		t.Helper()
		sent(b, question, answers)
		assert.Contains(t, strings.Join(textsOf(b, "article:last-child .wrong"), ""), want)
	}
	wrong(strings.Repeat("too long ", 9), "The prompt is too long: 97 tokens > 59 maximum of a context of 60", 1)
	wrong("broken", "the log of pilotfish serve says why", 2)
	assert.Equal(t, "user:broken\nassistant:", m.prompts[len(m.prompts)-1])
	m.fail = nil
	press(b, "Retry the answer")
	answered(b, 2)
	assert.Equal(t, []string{"", "ok"}, textsOf(b, ".assistant .text"))
	assert.Len(t, textsOf(b, ".wrong"), 1)
	require.NoError(t, web.Config.Handler.(*Server).Drain(t.Context()))
	wrong("late", "shutting down", 3)
	web.Close()
	wrong("never", "Is pilotfish serve still running there?", 4)
	b.Until(`document.getElementById("link").textContent === "no server"`)
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
	assert.Regexp(t, `^default-src 'none'; style-src 'sha256-[^ ]{44}'; script-src( 'sha256-[^ ]{44}'){3}; `+
		`img-src data:; connect-src 'self'; .* trusted-types 'none'$`, policy)
	assert.NotContains(t, policy, "unsafe")
	library, err := pageFiles.ReadFile("page/markdown-it-15.0.3/markdown-it.umd.min.js")
	require.NoError(t, err)
	before, after, found := strings.Cut(w.Body.String(), string(library))
	require.True(t, found)
	for _, word := range []string{"http:", "https:", "src=", "innerHTML", "insertAdjacent", "document.write", "eval("} {
		assert.NotContains(t, before+after, word)
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
