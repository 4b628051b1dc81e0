package serve

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// sessionPool keeps sessions with their texts, so that a request which continues one of them only computes its new
// part.
type sessionPool struct {
	model  model
	limit  int     // sessions, including those in use
	folder *Folder // of texts without a place in memory; nil: they are dropped
	log    *slog.Logger

	mu   sync.Mutex
	back sync.Cond        // of mu: a session has become available
	idle []*pooledSession // most recently used last
	used int
}

func newSessionPool(m model, limit int, f *Folder, log *slog.Logger) *sessionPool {
	p := &sessionPool{model: m, limit: limit, folder: f, log: log}
	p.back.L = &p.mu
	return p
}

// pooledSession is a session with its text.
type pooledSession struct {
	session
	text   []int32 // of the last prompt and its answer, as far as it is in the KV cache
	prompt int     // tokens of the prompt in it
	lent   int     // number of sessions that are copying its beginning
}

// acquireSession returns a session for a prompt, with as much of the prompt in its KV cache as possible. A request that
// continues a text, or repeats its last question, gets the session of that text. A prompt that only shares its
// beginning with another text, such as the system message, gets a copy of that beginning in another session, so that
// both texts are kept: a free session, else that of the least recently used text. Prompts of completions change from
// one request to the next, as in an editor, and earlier ones do not return: they take over a session if they have half
// of its last prompt.
func (p *sessionPool) acquireSession(ctx context.Context, prompt []int32, chat bool) *pooledSession {
	c := p.chooseSession(prompt, chat)
	if c.use != nil {
		return c.use
	}
	if c.old != nil {
		p.folder.saveText(ctx, c.old.session)
		_ = c.old.Close() // frees its memory
	}
	h := &pooledSession{session: p.model.NewSession()}
	loaded := p.folder.loadText(ctx, h.session, prompt, c.same)
	if c.from == nil {
		return h
	}
	if !loaded {
		if err := h.CopyKV(ctx, c.from.session, c.same); err != nil && ctx.Err() == nil {
			p.log.Warn("the beginning of a text could not be copied: it is computed again", "error", err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.from.lent--
	p.back.Broadcast()
	return h
}

// sessionChoice is the result of chooseSession.
type sessionChoice struct {
	use  *pooledSession // nil: a new one
	from *pooledSession // copy the beginning from it; it is lent until then; nil: no copy
	same int            // tokens that from and the prompt have in common
	old  *pooledSession // to be closed to make room for a new one; nil: none
}

func (p *sessionPool) chooseSession(prompt []int32, chat bool) sessionChoice {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; ; p.back.Wait() {
		c := p.longestPrefixSession(prompt)
		full := len(p.idle) > 0 && len(p.idle)+p.used >= p.limit
		if h := c.from; h != nil &&
			(c.same >= h.prompt || !chat && 2*c.same >= h.prompt || full && h == p.idle[0]) {
			if h.lent > 0 {
				continue
			}
			p.removeIdle(h)
			p.used++
			return sessionChoice{use: h}
		}
		if full {
			i := slices.IndexFunc(p.idle, func(h *pooledSession) bool { return h.lent == 0 && h != c.from })
			if i < 0 {
				continue
			}
			c.old = p.idle[i]
			p.removeIdle(c.old)
		}
		if c.from != nil {
			c.from.lent++
		}
		p.used++
		return c
	}
}

func (p *sessionPool) longestPrefixSession(prompt []int32) (c sessionChoice) {
	for _, h := range p.idle {
		if n := terms.CommonPrefix(h.text, prompt); n > c.same {
			c.from, c.same = h, n
		}
	}
	return c
}

func (p *sessionPool) removeIdle(h *pooledSession) {
	p.idle = slices.DeleteFunc(p.idle, func(o *pooledSession) bool { return o == h })
}

// releaseSession returns a session with its current text, in which the first tokens are the prompt. Without a text in
// its cache the session is closed.
func (p *sessionPool) releaseSession(h *pooledSession, text []int32, prompt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.back.Broadcast()
	p.used--
	if len(text) > 0 {
		text = text[:min(len(text), h.KVTokens())] // of a prompt whose client left, what was computed
	}
	if len(text) == 0 || len(p.idle)+p.used >= p.limit { // while a request stands aside there may be one too many
		_ = h.Close()
		return
	}
	h.text, h.prompt = text, min(prompt, len(text))
	p.idle = append(p.idle, h)
}

func (p *sessionPool) sessionCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) + p.used
}

func (p *sessionPool) saveAndCloseIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.idle {
		p.folder.saveText(context.Background(), h.session)
		_ = h.Close()
	}
	p.idle = nil
}
