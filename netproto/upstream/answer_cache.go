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

// answerCache stores answers, so that a repeated question of a client gets the same token. Clients do not share stored
// answers, so that the time of an answer reveals nothing about the questions of others.
type answerCache struct {
	seed    maphash.Seed // drawn at random, so that collisions of keys cannot be prepared
	answers *lru.Cache[uint64, storedAnswer]
	drops   atomic.Uint64 // how often all were dropped

	repeats   atomic.Uint64 // questions that were answered from memory
	differing atomic.Uint64 // answers of an engine that differed from the stored one, which was used instead
}

// storedAnswer is an answer and what was requested.
type storedAnswer struct {
	terms.Reply
	k         int
	auditFrom int          // start of an audit; 0: none
	verify    terms.Verify // the kind of that audit
}

func newAnswerCache(size int) *answerCache {
	answers, _ := lru.New[uint64, storedAnswer](size) // fails only for a size below 1
	return &answerCache{seed: maphash.MakeSeed(), answers: answers}
}

// answerKey returns a hash of everything that determines the token, and of who may share it: client and domain, the
// context and the sampling.
func (m *answerCache) answerKey(q terms.Job) uint64 {
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

// lookupAnswer returns the stored answer to a question, if it has everything that is requested. An audit that verified
// less, or in another way, does not count as verification.
func (m *answerCache) lookupAnswer(key uint64, q terms.Job) (a terms.Reply, ok bool) {
	found, ok := m.answers.Get(key)
	wanted := q.AuditFrom > 0 && q.AuditFrom < len(q.Context)
	exact := wanted && found.auditFrom > 0 && found.verify == q.Verify
	if !ok || q.K > found.k || exact && q.AuditFrom < found.auditFrom ||
		wanted && !exact && q.Verify != terms.AsItComes {
		return a, false
	}
	m.repeats.Add(1)
	a = terms.Reply{Token: found.Token, Top: slices.Clone(found.Top[:min(q.K, len(found.Top))])}
	if exact {
		a.Audited = min(found.Audited, len(q.Context)-q.AuditFrom)
		a.Audit = slices.DeleteFunc(slices.Clone(found.Audit),
			func(f terms.Finding) bool { return f.Pos < q.AuditFrom })
	}
	return a, true
}

// mergeWith combines two answers to one question. The token is that of the first.
func (r storedAnswer) mergeWith(now storedAnswer) storedAnswer {
	if now.k > r.k {
		r.k, r.Top = now.k, now.Top
	}
	if now.auditFrom > 0 && (r.auditFrom == 0 || now.verify > r.verify ||
		now.verify == r.verify && now.auditFrom < r.auditFrom) {
		r.auditFrom, r.verify, r.Audited, r.Audit = now.auditFrom, now.verify, now.Audited, now.Audit
	}
	return r
}

// dropAnswers drops all answers, also those to questions that are open: their engine may be another model.
func (m *answerCache) dropAnswers() {
	m.drops.Add(1)
	m.answers.Purge()
}

// storeAnswer stores an answer, unless all were dropped since its question was asked. If there is already a stored
// answer, from a question that requested less or that was asked concurrently, its token is kept.
func (m *answerCache) storeAnswer(key, drops uint64, q terms.Job, a terms.Reply) terms.Reply {
	const most = 16 // probabilities
	if m.drops.Load() != drops {
		return a
	}
	now := storedAnswer{Reply: a, k: min(q.K, most)}
	now.Top, now.Audit = slices.Clone(a.Top[:min(len(a.Top), most)]), slices.Clone(a.Audit)
	if a.Audited > 0 {
		now.auditFrom, now.verify = q.AuditFrom, q.Verify
	}
	before, found, _ := m.answers.PeekOrAdd(key, now)
	if !found {
		return a
	}
	if before.Token != a.Token {
		m.differing.Add(1)
		a.Token = before.Token
	}
	m.answers.Add(key, before.mergeWith(now))
	return a
}
