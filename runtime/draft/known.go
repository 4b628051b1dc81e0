package draft

import "github.com/pilotfish-ai/pilotfish/netproto/terms"

// fact is the large model's choice after one text, if known. Facts form a tree, by the tokens that follow, with the
// texts of the draft tree and of the answers. A fact holds wherever its text comes again.
type fact struct {
	known bool
	token int32                   // the large model's choice
	from  *stream                 // that brought it, if any
	found map[int32]terms.Finding // by other tokens that were compared with it
	next  map[int32]*fact
}

func (f *fact) after(token int32) *fact {
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

// learn notes the large model's choice. The first call counts, as all are the same.
func (f *fact) learn(token int32, from *stream) {
	if !f.known {
		f.known, f.token, f.from = true, token, from
	}
}

// differs notes the finding about a token that is not the large model's choice.
func (f *fact) differs(stands int32, found terms.Finding) {
	if f.found == nil {
		f.found = map[int32]terms.Finding{}
	}
	f.found[stands] = found
}

// verdict says whether a token of the small model stands.
type verdict int

const (
	unknown verdict = iota
	stands          // it is the large model's choice, or comes within the margin of it
	turns           // the large model's choice takes its place
)

// of returns the verdict about a token, within a margin.
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
	found, ok := f.found[token] // with scores, which are requested if there is a margin
	switch {
	case !ok:
		return unknown
	case float64(found.Score-found.Stands) <= margin:
		return stands
	}
	return turns
}
