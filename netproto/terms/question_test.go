package terms

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// checkedReply is a reply to a question about checkedText.
type checkedReply struct {
	verify Verify
	from   int
	reply  Reply
	good   bool
}

const vocab = 10

var checkedText = []int32{9, 8, 7, 6, 5, 4, 3, 2}

func checkedReplies() map[string]checkedReply {
	never, none := float32(math.Inf(-1)), float32(math.NaN())
	found := func(score, stands float32, positions ...int) (all []Finding) {
		for _, p := range positions {
			all = append(all, Finding{Pos: p, Token: 1, Score: score, Stands: stands})
		}
		return all
	}
	audit := func(n int, all ...Finding) Reply { return Reply{Audited: n, Audit: all} }
	return map[string]checkedReply{
		"the first token":       {AsItComes, 0, Reply{}, true},
		"the last token":        {AsItComes, 0, Reply{Token: vocab - 1}, true},
		"one more":              {AsItComes, 0, Reply{Token: vocab}, false},
		"one less":              {AsItComes, 0, Reply{Token: -1}, false},
		"candidates":            {AsItComes, 0, Reply{Top: []Candidate{{ID: 0}, {ID: vocab - 1}}}, true},
		"a foreign candidate":   {AsItComes, 0, Reply{Top: []Candidate{{ID: 0}, {ID: vocab}}}, false},
		"another":               {AsItComes, 0, Reply{Top: []Candidate{{ID: -1}}}, false},
		"no audit wanted":       {AsItComes, 0, audit(1), false},
		"less than nothing":     {AsItComes, 3, audit(-1), false},
		"fewer positions":       {AsItComes, 3, audit(2, found(0, 0, 6, 7)...), true},
		"one outside of them":   {AsItComes, 3, audit(2, found(0, 0, 5)...), false},
		"more positions":        {AsItComes, 3, audit(6), false},
		"the token there":       {AsItComes, 3, audit(5, Finding{Pos: 3, Token: 6}), true},
		"scores of an audit":    {AsItComes, 3, audit(5, found(-1, -2, 3)...), false},
		"verified":              {EachChoice, 3, audit(5, found(0, 0, 3, 7)...), true},
		"nothing found":         {EachScore, 3, audit(5), true},
		"nothing to verify":     {EachScore, 8, audit(0), true},
		"beyond the end":        {EachScore, 9, audit(0), true},
		"not wanted":            {EachScore, 0, audit(0), true},
		"fewer verified":        {EachChoice, 3, audit(4), false},
		"before":                {EachChoice, 3, audit(5, found(0, 0, 2)...), false},
		"after":                 {EachChoice, 3, audit(5, found(0, 0, 8)...), false},
		"twice":                 {EachChoice, 3, audit(5, found(0, 0, 4, 4)...), false},
		"out of order":          {EachChoice, 3, audit(5, found(0, 0, 5, 4)...), false},
		"the same token":        {EachChoice, 3, audit(5, Finding{Pos: 3, Token: 6}), false},
		"a foreign token":       {EachChoice, 3, audit(5, Finding{Pos: 3, Token: vocab}), false},
		"a token below":         {EachChoice, 3, audit(5, Finding{Pos: 3, Token: -1}), false},
		"scores of choices":     {EachChoice, 3, audit(5, found(-1, -2, 3)...), false},
		"scores":                {EachScore, 3, audit(5, found(-1, -2, 3, 4)...), true},
		"equal scores":          {EachScore, 3, audit(5, found(-1, -1, 3)...), true},
		"no chance":             {EachScore, 3, audit(5, found(0.5, never, 3)...), true},
		"upside down":           {EachScore, 3, audit(5, found(-2, -1, 3)...), false},
		"a score that is none":  {EachScore, 3, audit(5, found(none, -1, 3)...), false},
		"another that is none":  {EachScore, 3, audit(5, found(-1, none, 3)...), false},
		"a score without end":   {EachScore, 3, audit(5, found(-never, -1, 3)...), false},
		"a choice that can not": {EachScore, 3, audit(5, found(never, never, 3)...), false},
		"no scores":             {EachScore, 3, audit(5, found(0, 0, 3)...), false},
	}
}

// TestCheck: a reply has tokens of the vocabulary, and the audit that was requested: a verification is complete, and
// its findings are in order and differ from the text, with valid scores only if these are requested.
func TestCheck(t *testing.T) {
	for name, c := range checkedReplies() {
		t.Run(name, func(t *testing.T) {
			err := c.reply.Check(Question{Context: checkedText, AuditFrom: c.from, Verify: c.verify}, vocab)
			assert.Equal(t, c.good, err == nil, "%v", err)
		})
	}
}
