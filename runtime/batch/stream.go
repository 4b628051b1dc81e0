package batch

import (
	"container/list"
	"slices"
	"sync/atomic"

	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

const (
	// streak is the number of consecutive questions that must continue with the answer to the question before.
	streak = 4
	// maxStreams is the maximum number of streams, the latest ones. A stream takes about 40 bytes for each token of its
	// text.
	maxStreams = 64
	// maxIndexed is the maximum number of tokens, from the end of a text, that are indexed when it becomes a stream.
	// Other questions wait for the indexing.
	maxIndexed = 16384
)

// reply is the last answer of a session.
type reply struct {
	hash  uint64       // of the context
	run   int          // consecutive questions, up to its own, that continued with the answer before
	token atomic.Int32 // the answer; noToken until the caller has chosen it
}

const noToken = -1

// stream is a session that continues its questions with the answers: a text that the model of this service writes token
// by token. The service guesses what follows in it.
type stream struct {
	tree    *sessionTree
	element *list.Element // in prefixCache.streams
	hash    uint64        // of the text that is indexed
	text    lookup.Text
	guesses []*node // the last guesses, parents before children; some may be evicted, or part of the text
}

// updateStream is called when the step completes a. If its session is a stream, it indexes the text up to the end of
// the context.
func (s *Service) updateStream(st *step, a *ask) {
	t, f := a.tree, s.trees
	if a.run = t.countStreak(a.at); a.run < streak {
		f.endStream(t)
		return
	}
	x := t.stream
	switch {
	case x != nil && x.hash == a.at.hash: // asked again
	case x != nil && x.hash == a.at.parent.hash:
		x.text.Grow(a.at.token, true)
	default: // new, or after a question that was never answered
		if f.endStream(t); s.isStepBusy(st) {
			return
		}
		x = f.openStream(t, a.Context)
	}
	x.hash = a.at.hash
	f.streams.MoveToFront(x.element)
	// A token that is computed in this step was not guessed, or with too few candidates: guesses are on another path.
	if a.at.step == st.number {
		f.dropGuesses(x)
	}
}

func (t *sessionTree) countStreak(n *node) int {
	switch last := t.last; {
	case last == nil:
	case last.hash == n.hash: // asked again
		return last.run
	case last.hash == n.parent.hash && last.token.Load() == n.token:
		return last.run + 1
	}
	return 0
}

func (t *sessionTree) recordReply(a *ask) {
	t.last = &reply{hash: a.at.hash, run: a.run}
	t.last.token.Store(noToken)
	a.reply = t.last
}

// openStream begins to index the text of a session. If there is no room, it ends the stream with the oldest last
// question, which then starts over.
func (f *prefixCache) openStream(t *sessionTree, text []int32) *stream {
	if f.streams.Len() == maxStreams {
		oldest := f.streams.Back().Value.(*stream).tree
		f.endStream(oldest)
		oldest.last = nil
	}
	x := &stream{tree: t}
	x.text.Append(text[max(0, len(text)-maxIndexed):]...)
	x.element, t.stream = f.streams.PushFront(x), x
	return x
}

func (f *prefixCache) endStream(t *sessionTree) {
	if x := t.stream; x != nil {
		t.stream = nil
		f.streams.Remove(x.element)
		f.dropGuesses(x)
	}
}

func (f *prefixCache) dropGuesses(x *stream) {
	for _, n := range slices.Backward(x.guesses) {
		if n.guess {
			f.removeLeaf(n)
		}
	}
	x.guesses = nil
}

// evictGuess frees the slot of a guess that no question includes: the last one of the stream with the oldest last
// question. There must be such a guess.
func (f *prefixCache) evictGuess() {
	for e := f.streams.Back(); e != nil; e = e.Prev() {
		x := e.Value.(*stream)
		for len(x.guesses) > 0 {
			n := x.guesses[len(x.guesses)-1]
			if x.guesses = x.guesses[:len(x.guesses)-1]; n.guess {
				f.removeLeaf(n)
				return
			}
		}
	}
}

func (t *sessionTree) unaskedGuesses() (n int) {
	if t.stream != nil {
		for _, g := range t.stream.guesses {
			if g.guess {
				n++
			}
		}
	}
	return n
}
