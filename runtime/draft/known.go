package draft

import "github.com/pilotfish-ai/pilotfish/netproto/terms"

// fact is what is known of the large model behind one text: which token it chooses there. Facts form a tree, by the
// tokens that follow; it holds the texts of the draft tree and of the answers. What is known of a text holds wherever
// the text comes again, as the large model chooses the same whoever asks.
type fact struct {
	known bool
	token int32                   // the large model's choice
	from  *stream                 // that told of it, if it came ahead
	found map[int32]terms.Finding // by other tokens that stood there and were compared with it
	next  map[int32]*fact
}

// behind returns what is known after one token more.
func (f *fact) behind(token int32) *fact {
	n := f.next[token]
	if n == nil {
		if f.next == nil {
			f.next = map[int32]*fact{}
		}
		n = new(fact)
		f.next[token] = n
	}
	return n
}

// learn notes the large model's choice. The first to tell counts, as all tell the same.
func (f *fact) learn(token int32, from *stream) {
	if !f.known {
		f.known, f.token, f.from = true, token, from
	}
}

// differs notes that another token stands there than the large model's choice.
func (f *fact) differs(stands int32, found terms.Finding) {
	if f.found == nil {
		f.found = map[int32]terms.Finding{}
	}
	f.found[stands] = found
}

// verdict is what the large model says of a token of the small one.
type verdict int

const (
	unknown verdict = iota
	stands          // it is the large model's choice, or comes within the margin of it
	turns           // the large model's choice takes its place
)

// of says whether a token stands within a margin.
func (f *fact) of(token int32, margin float64) verdict {
	if !f.known {
		return unknown
	}
	if token == f.token {
		return stands
	}
	if margin == 0 {
		return turns
	}
	found, told := f.found[token] // with scores: they are asked for where there is a margin
	switch {
	case !told:
		return unknown
	case float64(found.Score-found.Stands) <= margin:
		return stands
	}
	return turns
}
