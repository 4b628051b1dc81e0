package upstream

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// memory keeps answers, so that a question of a client that comes again has the token that it had before. One client's
// answers are not found by another: how fast an answer comes tells nobody what others asked.
type memory struct {
	seed    maphash.Seed // drawn at random: nobody can make up two questions with one key
	answers *lru.Cache[uint64, remembered]

	repeats   atomic.Uint64 // questions that were answered from memory
	differing atomic.Uint64 // answers of an engine that were not what is remembered, and were replaced by it
}

// remembered is an answer and what it was asked for.
type remembered struct {
	terms.Reply
	k         int
	auditFrom int          // of an exact audit; 0: none
	verify    terms.Verify // what that audit was to be
}

func newMemory(size int) *memory {
	answers, _ := lru.New[uint64, remembered](size) // fails only for a size below 1
	return &memory{seed: maphash.MakeSeed(), answers: answers}
}

// key is a hash of what decides the token, and who may learn of it: client and domain, the context and how it is drawn.
func (m *memory) key(q terms.Job) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	b := make([]byte, 0, 64+4*len(q.Context))
	b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, q.Client), q.Domain)
	if !q.Sampling.Greedy() {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(q.Sampling.Temperature))
		b = binary.LittleEndian.AppendUint64(b, uint64(q.Sampling.TopK))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(q.Sampling.TopP))
		b = binary.LittleEndian.AppendUint64(b, q.Sampling.Seed)
	}
	for _, id := range q.Context {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	h.Write(b)
	return h.Sum64()
}

// recall returns the answer to a question that was asked before, if it says all that is wanted now. No sampled audit is
// drawn again, and what verified less, or in another way, verifies nothing.
func (m *memory) recall(key uint64, q terms.Job) (a terms.Reply, ok bool) {
	found, ok := m.answers.Get(key)
	wanted := q.AuditFrom > 0 && q.AuditFrom < len(q.Context)
	exact := wanted && found.auditFrom > 0 && found.verify == q.Verify
	if !ok || q.K > found.k || exact && q.AuditFrom < found.auditFrom ||
		wanted && !exact && q.Verify != terms.AsItComes {
		return a, false
	}
	m.repeats.Add(1)
	a = terms.Reply{Token: found.Token, Top: found.Top[:min(q.K, len(found.Top))]}
	if exact {
		a.Audited = min(found.Audited, len(q.Context)-q.AuditFrom)
		a.Audit = slices.DeleteFunc(slices.Clone(found.Audit),
			func(f terms.Finding) bool { return f.Pos < q.AuditFrom })
	}
	return a, true
}

// with returns what two answers to one question say together, with the token of the first.
func (r remembered) with(now remembered) remembered {
	if now.k > r.k {
		r.k, r.Top = now.k, now.Top
	}
	if now.auditFrom > 0 && (r.auditFrom == 0 || now.verify > r.verify ||
		now.verify == r.verify && now.auditFrom < r.auditFrom) {
		r.auditFrom, r.verify, r.Audited, r.Audit = now.auditFrom, now.verify, now.Audited, now.Audit
	}
	return r
}

// keep remembers an answer. Where one is remembered already, from a question that wanted less or that was under way at
// the same time, its token stands.
func (m *memory) keep(key uint64, q terms.Job, a terms.Reply) terms.Reply {
	const most = 16 // probabilities
	now := remembered{Reply: a, k: min(q.K, most)}
	now.Top = slices.Clone(a.Top[:min(len(a.Top), most)])
	if a.Sampled == 0 && a.Audited > 0 {
		now.auditFrom, now.verify = q.AuditFrom, q.Verify
	}
	now.Queue, now.Compute = 0, 0
	before, found, _ := m.answers.PeekOrAdd(key, now)
	if !found {
		return a
	}
	if before.Token != a.Token {
		m.differing.Add(1)
		a.Token = before.Token
	}
	m.answers.Add(key, before.with(now))
	return a
}
