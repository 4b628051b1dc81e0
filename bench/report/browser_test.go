package report

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

var screenshots = flag.String("screenshots", "",
	"write pictures of the page, as a browser shows it, into this `folder`")

// browser is a headless Chromium that is told what to do over a pipe (DevTools protocol).
type browser struct {
	t        *testing.T
	in       io.Writer
	out      *bufio.Reader
	id       int
	session  string
	problems []string // of pages and their scripts
}

// message is one of the protocol, either way.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// startBrowser starts one with an empty page, for as long as the test runs.
func startBrowser(t *testing.T) *browser {
	path, err := exec.LookPath("chromium")
	if err != nil {
		sharedtest.Missing(t, errors.New("there is no chromium in PATH to show a page with"))
	}
	toBrowser, write, err := os.Pipe()
	require.NoError(t, err)
	read, fromBrowser, err := os.Pipe()
	require.NoError(t, err)
	// The test's own context ends before the browser is asked to close.
	ctx, kill := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	c := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--user-data-dir="+held.TempDir(t), "--remote-debugging-pipe", "about:blank")
	c.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4
	c.Stderr = io.Discard                             // through a pipe: Wait waits for all processes that write to it
	c.WaitDelay = time.Minute
	require.NoError(t, c.Start())
	toBrowser.Close()
	fromBrowser.Close()
	require.NoError(t, read.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() {
		_, _ = write.Write([]byte(`{"id":1000000,"method":"Browser.close"}` + "\x00"))
		_, _ = io.Copy(io.Discard, read)
		_ = c.Wait()
		kill()
		write.Close()
		read.Close()
	})
	b := &browser{t: t, in: write, out: bufio.NewReader(read)}
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call("Target.createTarget", `{"url":"about:blank"}`, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", fmt.Sprintf(`{"targetId":%q,"flatten":true}`, target.TargetID), &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", `{}`, nil)
	}
	return b
}

// call asks for something and waits for what comes of it; complaints of the page that come before are kept.
func (b *browser) call(method, params string, into any) {
	b.t.Helper()
	b.id++
	text, err := json.Marshal(message{ID: b.id, Session: b.session, Method: method, Params: json.RawMessage(params)})
	require.NoError(b.t, err)
	_, err = b.in.Write(append(text, 0))
	require.NoError(b.t, err)
	for {
		m := b.next()
		if m.ID != b.id {
			continue
		}
		require.Empty(b.t, string(m.Error), method)
		if into != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, into))
		}
		return
	}
}

// next reads a message, and notes it where it is a complaint or a request to anything but the page itself.
func (b *browser) next() (m message) {
	b.t.Helper()
	line, err := b.out.ReadBytes(0)
	require.NoError(b.t, err, "the browser says nothing any more")
	require.NoError(b.t, json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m))
	switch m.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.problems = append(b.problems, string(m.Params))
	case "Network.requestWillBeSent":
		var r struct {
			Request struct{ URL string }
		}
		require.NoError(b.t, json.Unmarshal(m.Params, &r))
		if u := r.Request.URL; !bytes.HasPrefix([]byte(u), []byte("file:")) &&
			!bytes.HasPrefix([]byte(u), []byte("data:")) {
			b.problems = append(b.problems, "it asks for "+u)
		}
	}
	return m
}

// open shows a file at a width, in light or dark.
func (b *browser) open(path string, width int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride",
		fmt.Sprintf(`{"width":%d,"height":900,"deviceScaleFactor":1,"mobile":%v}`, width, width < 600), nil)
	b.call("Emulation.setEmulatedMedia",
		fmt.Sprintf(`{"features":[{"name":"prefers-color-scheme","value":%q}]}`, scheme), nil)
	b.call("Page.navigate", fmt.Sprintf(`{"url":%q}`, "file://"+path), nil)
	for b.next().Method != "Page.loadEventFired" {
	}
}

// evaluated is what an expression of JavaScript comes to.
func evaluated[T any](b *browser, expression string) T {
	b.t.Helper()
	text, err := json.Marshal(expression)
	require.NoError(b.t, err)
	var r struct {
		Result    struct{ Value T }
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", fmt.Sprintf(`{"expression":%s,"returnByValue":true}`, text), &r)
	require.Empty(b.t, string(r.Exception))
	return r.Result.Value
}

// picture writes what the whole page looks like, if pictures are wanted.
func (b *browser) picture(name string) {
	if *screenshots == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", `{"captureBeyondViewport":true}`, &shot)
	image, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), image, 0o644))
}

// clickAll clicks every control of the page, one after the other, and returns how many there were.
const clickAll = `(() => {
  let n = 0;
  for (const e of document.querySelectorAll("input, summary, button, a")) { e.click(); n++; }
  for (const e of document.querySelectorAll("select")) {
    for (const o of e.options) { e.value = o.value; e.dispatchEvent(new Event("input", {bubbles: true})); n++; }
  }
  return n;
})()`

// TestPageInBrowser: a browser has nothing to complain about at any width, light or dark, whatever is clicked; nothing
// but tables in their boxes is wider than the page; nothing is asked of a network; modes and cells that are not wanted
// are hidden.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes its time: not with -short")
	}
	b := startBrowser(t)
	path := filepath.Join(held.TempDir(t), "page.html")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, sample(t).WriteHTML(f))
	require.NoError(t, f.Close())
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.open(path, width, scheme)
			b.picture(fmt.Sprintf("%d-%s", width, scheme))
			const visible = `[...document.querySelectorAll("%s")].filter((e) => e.getClientRects().length > 0).length`
			assert.LessOrEqual(t, evaluated[int](b, "document.documentElement.scrollWidth"), width)
			assert.Equal(t, 1, evaluated[int](b, fmt.Sprintf(visible, "[data-place]")), "one cell")
			lines := fmt.Sprintf(visible, `figure path.l`)
			before := evaluated[int](b, lines)
			evaluated[bool](b, `document.querySelector("input[data-mode=serial]").click(), true`)
			assert.Less(t, evaluated[int](b, lines), before, "without serial")
			evaluated[bool](b, `document.querySelector("input[data-mode=serial]").click(), true`)
			assert.Equal(t, before, evaluated[int](b, lines))
			assert.Greater(t, evaluated[int](b, clickAll), 10)
			assert.Equal(t, 1, evaluated[int](b, fmt.Sprintf(visible, "[data-place]")), "another cell")
			b.picture(fmt.Sprintf("%d-%s-clicked", width, scheme))
			dark := evaluated[string](b, `getComputedStyle(document.body).backgroundColor`)
			assert.Equal(t, map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 28)"}[scheme], dark)
		}
	}
	assert.Empty(t, b.problems)
	assert.False(t, evaluated[bool](b, `"hostile" in window`), "text is text")
}
