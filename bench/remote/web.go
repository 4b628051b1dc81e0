package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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

func serveWeb(l net.Listener, dial func(_ context.Context, network, addr string) (net.Conn, error),
	large *engine.Engine, answer draft.Cloud, rtt time.Duration) *Web {
	w := &Web{large: large, answer: answer, rtt: rtt, url: "http://" + l.Addr().String(),
		done: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /next", w.serveNextToken)
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

// serveNextToken answers a request after a round trip: it tokenizes the text, and asks for the token after it.
func (w *Web) serveNextToken(out http.ResponseWriter, r *http.Request) {
	time.Sleep(w.rtt)
	var q webText
	err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q)
	var ids []int32
	if err == nil {
		ids, err = w.large.RawPrompt(q.Text)
	}
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

// paperCloud asks as the paper does: with the whole text, as JSON, each time.
type paperCloud struct {
	w    *Web
	text func(ids []int32) string
}

// Paper returns a cloud that asks as the paper does; text converts ids to text.
func (w *Web) Paper(text func(ids []int32) string) draft.Cloud { return paperCloud{w, text} }

func (c paperCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	body, err := json.Marshal(webText{Text: c.text(q.Context)})
	if err != nil {
		return draft.Answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", c.w.url+"/next", bytes.NewReader(body))
	if err != nil {
		return draft.Answer{}, err
	}
	a, err := c.w.client.Do(r)
	if err != nil {
		return draft.Answer{}, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, 1<<20))
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("/next: %s: %s", a.Status, bytes.TrimSpace(b))
	}
	var t webToken
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	return draft.Answer{Prefilled: len(q.Context), BytesUp: len(body), BytesDown: len(b),
		Reply: terms.Reply{Token: t.Token}}, err
}
