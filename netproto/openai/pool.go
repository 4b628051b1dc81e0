package openai

import (
	"slices"
	"sync"

	"github.com/pilotfish-ai/pilotfish/internal/prefix"
)

// pool keeps sessions with their texts, so that a request which goes on with one of them has only what is new computed.
type pool struct {
	model Model
	most  int // sessions, those in use included

	mu   sync.Mutex
	idle []*pooled // the one that was used last is last
	used int
}

// pooled is a session with its text.
type pooled struct {
	Session
	text   []int32 // of the last prompt and its answer
	prompt int     // tokens of the prompt
}

// take returns the session for a prompt: the one whose text has most in common with it, if that is at least half of its
// own last prompt, since the rest is lost: a chat that goes on, or an answer that is asked for again. Others that begin
// alike, such as by the same system message, do not lose their texts while there is room. Else it is a new session, in
// the place of the one that was used longest ago where there are as many as there may be.
func (p *pool) take(prompt []int32) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used++
	best, common := -1, 0
	for i, h := range p.idle {
		if n := prefix.Len(h.text, prompt); n > common && 2*n >= h.prompt {
			best, common = i, n
		}
	}
	if best >= 0 {
		h := p.idle[best]
		p.idle = slices.Delete(p.idle, best, best+1)
		return h
	}
	if len(p.idle) > 0 && len(p.idle)+p.used > p.most {
		h := p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		_ = h.Close() // it gives its memory back
	}
	return &pooled{Session: p.model.NewSession()}
}

// give puts a session back with the text that it holds now, of which so many tokens are the prompt.
// Without a text it is of no more use.
func (p *pool) give(h *pooled, text []int32, prompt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if len(text) == 0 {
		_ = h.Close()
		return
	}
	h.text, h.prompt = text, prompt
	p.idle = append(p.idle, h)
}

// size returns how many sessions there are.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) + p.used
}

// close closes those that are not in use.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.idle {
		_ = h.Close()
	}
	p.idle = nil
}
