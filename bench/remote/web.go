package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Web is the large model as a conventional HTTP server: the baseline. It listens on loopback, and waits for a round
// trip before each request: everything then arrives as if each way took half of it.
type Web struct {
	large  *engine.Engine
	answer draft.Cloud // the next token for a context
	rtt    time.Duration
	server *http.Server
	client *http.Client
	url    string
	done   chan error
}

// webText is a request: the whole text so far, with special tokens as text.
type webText struct {
	Text string `json:"text"`
}

// webToken is an answer.
type webToken struct {
	Token int32  `json:"token"`
	Text  string `json:"text"`
}

// StartWeb starts a server.
func StartWeb(large *engine.Engine, answer draft.Cloud, rtt time.Duration) (*Web, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return serveWeb(l, new(net.Dialer).DialContext, large, answer, rtt), nil
}

// serveWeb starts a server on a listener, which dial connects to.
func serveWeb(l net.Listener, dial func(_ context.Context, network, addr string) (net.Conn, error),
	large *engine.Engine, answer draft.Cloud, rtt time.Duration) *Web {
	w := &Web{large: large, answer: answer, rtt: rtt, url: "http://" + l.Addr().String(),
		done: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /next", w.next)
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: dial}}
	go func() { w.done <- w.server.Serve(l) }()
	return w
}

// Close ends the server and waits for it.
func (w *Web) Close() {
	w.client.CloseIdleConnections()
	w.server.Close()
	<-w.done
}

func (w *Web) next(out http.ResponseWriter, r *http.Request) {
	ids, err := w.read(r)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := w.answer.Ask(r.Context(), draft.Question{Context: ids})
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	json.NewEncoder(out).Encode(webToken{Token: a.Token})
}

// read reads the text of a request after a round trip, and tokenizes it.
func (w *Web) read(r *http.Request) ([]int32, error) {
	time.Sleep(w.rtt)
	var q webText
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil {
		return nil, err
	}
	return w.large.RawPrompt(q.Text)
}

// post sends a request and returns the response body, and the size of the request in bytes.
func (w *Web) post(ctx context.Context, path string, q webText) (io.ReadCloser, int, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", w.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := w.client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(a.Body, 1000))
		a.Body.Close()
		return nil, 0, fmt.Errorf("%s: %s: %s", path, a.Status, strings.TrimSpace(string(text)))
	}
	return a.Body, len(body), nil
}

// paperCloud asks as the paper does: with the whole text, as JSON, each time.
type paperCloud struct {
	w    *Web
	text func(ids []int32) string
}

// Paper returns a cloud that asks as the paper does; text converts ids to text.
func (w *Web) Paper(text func(ids []int32) string) draft.Cloud { return paperCloud{w, text} }

func (c paperCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	body, up, err := c.w.post(ctx, "/next", webText{Text: c.text(q.Context)})
	if err != nil {
		return draft.Answer{}, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, 1<<20))
	if err != nil {
		return draft.Answer{}, err
	}
	var t webToken
	if err := json.Unmarshal(b, &t); err != nil {
		return draft.Answer{}, err
	}
	return draft.Answer{Prefilled: len(q.Context), BytesUp: up, BytesDown: len(b),
		Reply: terms.Reply{Token: t.Token}}, nil
}
