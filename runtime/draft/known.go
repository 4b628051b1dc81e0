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

func (f *fact) childFact(token int32) *fact {
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

// The first call counts, as all are the same.
func (f *fact) recordChoice(token int32, from *stream) {
	if !f.known {
		f.known, f.token, f.from = true, token, from
	}
}

func (f *fact) recordFinding(stands int32, found terms.Finding) {
	if f.found == nil {
		f.found = map[int32]terms.Finding{}
	}
	f.found[stands] = found
}

// verdict says whether a token of the small model stands.
type verdict int

const (
	verdictUnknown verdict = iota
	verdictAccept          // it is the large model's choice, or comes within the margin of it
	verdictReject          // the large model's choice takes its place
)

func (f *fact) verdictFor(token int32, margin float64) verdict {
	if !f.known {
		return verdictUnknown
	}
	if token == f.token {
		return verdictAccept
	}
	if margin == 0 {
		return verdictReject
	}
	found, ok := f.found[token] // with scores, which are requested if there is a margin
	switch {
	case !ok:
		return verdictUnknown
	case float64(found.Score-found.Stands) <= margin:
		return verdictAccept
	}
	return verdictReject
}
