// Package browsertest opens pages in a headless Chromium, for tests of pages that the program writes and serves.
package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// Browser is a headless Chromium, controlled over a pipe (DevTools protocol).
type Browser struct {
	Problems []string // errors of pages and their scripts, and requests to other addresses than the page and its server

	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	id      int
	session string
	home    string // prefix of the addresses of pages
}

// message is a message of the protocol, in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Start starts a browser with an empty page, for the duration of the test. Addresses of pages begin with home, such as
// "file://": requests to other addresses are recorded as problems.
func Start(t *testing.T, home string) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		sharedtest.Missing(t, errors.New("no chromium in PATH"))
	}
	toBrowser, write, err := os.Pipe()
	failOnError(t, err)
	read, fromBrowser, err := os.Pipe()
	failOnError(t, err)
	// The test's own context ends before the browser is asked to close.
	ctx, kill := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	c := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	c.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4
	c.Stderr = io.Discard                             // through a pipe: Wait waits for all processes that write to it
	c.WaitDelay = time.Minute
	failOnError(t, c.Start())
	toBrowser.Close()
	fromBrowser.Close()
	failOnError(t, read.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() {
		_, _ = write.Write([]byte(`{"id":1000000,"method":"Browser.close"}` + "\x00"))
		_, _ = io.Copy(io.Discard, read)
		_ = c.Wait()
		kill()
		write.Close()
		read.Close()
	})
	b := &Browser{t: t, in: write, out: bufio.NewReader(read), home: home}
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.Call("Target.createTarget", `{"url":"about:blank"}`, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.Call("Target.attachToTarget", fmt.Sprintf(`{"targetId":%q,"flatten":true}`, target.TargetID), &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Call(domain+".enable", `{}`, nil)
	}
	return b
}

// Call calls a method and waits for its result; it records errors of the page that arrive before.
func (b *Browser) Call(method, params string, into any) {
	b.t.Helper()
	b.id++
	text, err := json.Marshal(message{ID: b.id, Session: b.session, Method: method, Params: json.RawMessage(params)})
	failOnError(b.t, err)
	_, err = b.in.Write(append(text, 0))
	failOnError(b.t, err)
	for {
		m := b.readMessage()
		if m.ID != b.id {
			continue
		}
		if len(m.Error) > 0 {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if into != nil {
			failOnError(b.t, json.Unmarshal(m.Result, into))
		}
		return
	}
}

// readMessage reads a message. It records errors of the page, and requests to other addresses.
func (b *Browser) readMessage() (m message) {
	b.t.Helper()
	line, err := b.out.ReadBytes(0)
	failOnError(b.t, err)
	failOnError(b.t, json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m))
	switch m.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.Problems = append(b.Problems, string(m.Params))
	case "Network.requestWillBeSent":
		var r struct {
			Request struct{ URL string }
		}
		failOnError(b.t, json.Unmarshal(m.Params, &r))
		if u := r.Request.URL; !strings.HasPrefix(u, b.home) && !strings.HasPrefix(u, "data:") {
			b.Problems = append(b.Problems, "it asks for "+u)
		}
	}
	return m
}

// Open opens a page with a width, in light or dark colours: path is appended to home.
func (b *Browser) Open(path string, width int, scheme string) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride",
		fmt.Sprintf(`{"width":%d,"height":900,"deviceScaleFactor":1,"mobile":%v}`, width, width < 600), nil)
	b.Call("Emulation.setEmulatedMedia",
		fmt.Sprintf(`{"features":[{"name":"prefers-color-scheme","value":%q}]}`, scheme), nil)
	b.Call("Page.navigate", fmt.Sprintf(`{"url":%q}`, b.home+path), nil)
	for b.readMessage().Method != "Page.loadEventFired" {
	}
}

// Evaluated returns the value of a JavaScript expression; of a promise, the value that it resolves to.
func Evaluated[T any](b *Browser, expression string) T {
	b.t.Helper()
	var r struct {
		Result    struct{ Value T }
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	const params = `{"expression":%s,"returnByValue":true,"awaitPromise":true}`
	b.Call("Runtime.evaluate", fmt.Sprintf(params, marshalJSON(b.t, expression)), &r)
	if len(r.Exception) > 0 {
		b.t.Fatalf("%s: %s", expression, r.Exception)
	}
	return r.Result.Value
}

// Until waits until a JavaScript expression is true, for ten seconds.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	const look = `new Promise((done) => {
		const end = Date.now() + 10000;
		const look = () => %s ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 10);
		look();
	})`
	if !Evaluated[bool](b, fmt.Sprintf(look, "("+expression+")")) {
		b.t.Fatalf("not within ten seconds: %s", expression)
	}
}

// Type types a text into the focused element, and then a key, such as "Enter"; "" means no key.
func (b *Browser) Type(text, key string) {
	b.t.Helper()
	if text != "" {
		b.Call("Input.insertText", fmt.Sprintf(`{"text":%s}`, marshalJSON(b.t, text)), nil)
	}
	if key == "" {
		return
	}
	typed := map[string]string{"Enter": "\r"}[key]
	code := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40}[key]
	const params = `{"type":%q,"key":%q,"code":%q,"text":%s,"windowsVirtualKeyCode":%d}`
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.Call("Input.dispatchKeyEvent", fmt.Sprintf(params, kind, key, key, marshalJSON(b.t, typed), code), nil)
	}
}

func failOnError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func marshalJSON(t *testing.T, v any) []byte {
	b, err := json.Marshal(v)
	failOnError(t, err)
	return b
}
