package upstream

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// options returns the options of an Upstream for engines at hosts.
func options(w *fakeengine.Wire, hosts ...string) Options {
	v := fakeengine.NewVocabulary()
	o := Options{
		Vocabulary: v, Identity: netproto.Identity{Vocab: v.Size()}, Draw: drawn, Transport: w,
	}
	for _, h := range hosts {
		o.URLs = append(o.URLs, "http://"+h)
	}
	return o
}

// open opens an Upstream for the duration of the test.
func open(t *testing.T, o Options) *Upstream {
	t.Helper()
	u, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(u.Close)
	return u
}

// mustAsk is Ask without an error.
func mustAsk(t testing.TB, u *Upstream, q terms.Job) terms.Reply {
	t.Helper()
	a, err := u.Ask(t.Context(), q)
	require.NoError(t, err)
	return a
}

// sessionOf returns a session of the engine at a URL.
func sessionOf(u *Upstream, url string) (session uint64) {
	for u.rankEngines(session)[0].url != url {
		session++
	}
	return session
}

// many returns n, or fewer with -short, as under the race detector.
func many(n int) int {
	if testing.Short() {
		return max(n/5, 1)
	}
	return n
}

// drawn takes a token by seed and position.
func drawn(s terms.Sampling, pos int, top []terms.Candidate, stands int32) (int32, float32, float32, error) {
	at := (int(s.Seed) + pos) % len(top)
	if stands == top[at].ID {
		return stands, 1, 1, nil
	}
	return top[at].ID, 1, scoreOf(stands, top), nil
}

// scoreOf returns the score that drawn gives to a token that it does not choose.
func scoreOf(token int32, top []terms.Candidate) float32 {
	for i, c := range top {
		if c.ID == token {
			return -float32(i)
		}
	}
	return float32(math.Inf(-1))
}

// contextOf returns n tokens.
func contextOf(r *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(300)
	}
	return ids
}

// truth returns the correct output for a context: its tokens, the most probable first.
func truth(e *fakeengine.Engine, context []int32) (all []terms.Candidate) {
	model := e.Model
	if model == nil {
		model = fakeengine.Table(fakeengine.NewVocabulary(), 1)
	}
	for id, p := range model(context) {
		all = append(all, terms.Candidate{ID: int32(id), LogProb: float32(p)})
	}
	slices.SortStableFunc(all, func(a, b terms.Candidate) int { return cmp.Compare(b.LogProb, a.LogProb) })
	return all
}

func question(session uint64, context []int32) terms.Job {
	return terms.Job{Client: 1, Device: 2, Session: session, Question: terms.Question{Context: context}}
}
