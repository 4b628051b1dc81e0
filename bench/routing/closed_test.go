package routing_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// follower is a model that evaluates one text at a time. It does not evaluate again the prefix that a text has in
// common with the one before.
type follower struct {
	e     *engine.Engine
	tok   *tokenizer.Tokenizer
	cache *transformer.Cache
	ids   []int32
}

func newFollower(t testing.TB, e *engine.Engine) *follower {
	t.Helper()
	cache, err := e.Model().NewCache(e.Context(), gguf.F16)
	require.NoError(t, err)
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	return &follower{e: e, tok: tok, cache: cache}
}

// last returns the outputs after each of the last n tokens of ids.
func (f *follower) last(ctx context.Context, ids []int32, n int, want backend.Want) ([]backend.Output, error) {
	same := 0
	for same < min(len(f.ids), len(ids)-n) && f.ids[same] == ids[same] {
		same++
	}
	f.cache.Truncate(same)
	f.ids = f.ids[:same]
	rows, err := f.cache.Extend(ids[same:])
	if err != nil {
		return nil, err
	}
	want.Rows = nil
	for i := range n {
		want.Rows = append(want.Rows, len(ids)-n-same+i)
	}
	out := make([]backend.Output, n)
	if err := f.e.Model().Forward(ctx, f.cache.KV(), rows, out, want); err != nil {
		return nil, err
	}
	f.ids = append(f.ids, ids[same:]...)
	return out, nil
}

// duo holds two models that decode by the definition of serial routing.
type duo struct{ small, large *follower }

// walk is one text decoded by both models.
type walk struct {
	ids    []int32 // prompt and answer
	prompt int     // tokens
	cloud  int     // tokens of the answer that the large model chose
	agree  int     // tokens of the answer that it would choose after the tokens before, as audit counts
}

func (w walk) tokens() int { return len(w.ids) - w.prompt }

// decode answers a prompt with max limit tokens.
func (d duo) decode(ctx context.Context, prompt []int32, r *router.Router, limit int) (walk, error) {
	w := walk{ids: slices.Clone(prompt), prompt: len(prompt)}
	limit = min(limit, d.small.e.Context()-len(prompt), d.large.e.Context()-len(prompt))
	path := uint64(0)
	for w.tokens() < limit {
		out, err := d.small.last(ctx, w.ids, 1, r.Want(backend.Want{K: 2}))
		if err != nil {
			return w, err
		}
		_, escalate, next := r.Decide(path, len(w.ids), &out[0])
		path = next
		if escalate {
			if out, err = d.large.last(ctx, w.ids, 1, backend.Want{K: 1}); err != nil {
				return w, err
			}
			w.cloud++
		}
		w.ids = append(w.ids, out[0].Top[0].ID)
		if d.small.tok.IsEnd(out[0].Top[0].ID) {
			break
		}
	}
	return w, d.audit(ctx, &w)
}

// audit counts the tokens that the large model would choose.
func (d duo) audit(ctx context.Context, w *walk) error {
	out, err := d.large.last(ctx, w.ids[:len(w.ids)-1], w.tokens(), backend.Want{K: 1})
	for i, o := range out {
		if o.Top[0].ID == w.ids[w.prompt+i] {
			w.agree++
		}
	}
	return err
}

// point is the result of one threshold over texts: the share of tokens from the large model, and the quality of the
// texts.
type point struct{ share, worth float64 }

// curve joins the points of one policy by lines, from the small model alone to the large one alone.
type curve []point

// at returns the worth at a share.
func (c curve) at(share float64) float64 {
	i := 1
	for i < len(c)-1 && c[i].share < share {
		i++
	}
	a, b := c[i-1], c[i]
	if b.share == a.share {
		return max(a.worth, b.worth)
	}
	return a.worth + (b.worth-a.worth)*(share-a.share)/(b.share-a.share)
}

// area returns the area under the curve up to a share, divided by that share.
func (c curve) area(to float64) float64 {
	const steps = 200
	sum := 0.0
	for i := range steps {
		sum += c.at(to * (float64(i) + 0.5) / steps)
	}
	return sum / steps
}

// sweep is a policy at several thresholds over the same texts: counts for each text.
type sweep struct {
	tokens, cloud, worth, of [][]float64 // [threshold][text]; the worth of all texts is Σ worth / Σ of
}

// curveOf returns the curve of texts, which may repeat.
func (s sweep) curveOf(texts []int) curve {
	c := curve{}
	for t := range s.tokens {
		var tokens, cloud, worth, of float64
		for _, i := range texts {
			tokens, cloud = tokens+s.tokens[t][i], cloud+s.cloud[t][i]
			worth, of = worth+s.worth[t][i], of+s.of[t][i]
		}
		c = append(c, point{cloud / tokens, worth / of})
	}
	slices.SortStableFunc(c, func(a, b point) int { return cmp.Compare(a.share, b.share) })
	return c
}

// every returns the indices of n texts.
func every(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// paired is a difference with its interval.
type paired struct{ mean, low, high float64 }

// and joins both sweeps: the thresholds of o follow those of s.
func (s sweep) and(o sweep) sweep {
	return sweep{
		slices.Concat(s.tokens, o.tokens), slices.Concat(s.cloud, o.cloud),
		slices.Concat(s.worth, o.worth), slices.Concat(s.of, o.of),
	}
}

// bootstrap resamples texts with replacement, the same for both sweeps, and returns the difference of a figure of their
// curves with its 95% interval.
func bootstrap(a, b sweep, figure func(curve) float64) paired {
	n := len(a.tokens[0])
	r := rand.New(rand.NewPCG(1, 0))
	const draws = 1000
	all := make([]float64, draws)
	texts := make([]int, n)
	for d := range all {
		for i := range texts {
			texts[i] = r.IntN(n)
		}
		all[d] = figure(a.curveOf(texts)) - figure(b.curveOf(texts))
	}
	slices.Sort(all)
	return paired{figure(a.curveOf(every(n))) - figure(b.curveOf(every(n))), all[draws/40], all[draws-1-draws/40]}
}

// texts holds prompts to be answered in closed loop, and how answers are judged.
type texts struct {
	duos    []duo // one for each concurrent text
	prompts [][]int32
	limit   int                                     // max tokens of an answer
	worth   func(i int, w walk) (worth, of float64) // of the answer to prompt i
}

// sweep decodes all texts at each threshold of a policy.
func (x texts) sweep(t testing.TB, o router.Options, thresholds []float64) sweep {
	t.Helper()
	n := len(thresholds)
	s := sweep{make([][]float64, n), make([][]float64, n), make([][]float64, n), make([][]float64, n)}
	for k := range thresholds {
		for _, column := range []*[]float64{&s.tokens[k], &s.cloud[k], &s.worth[k], &s.of[k]} {
			*column = make([]float64, len(x.prompts))
		}
	}
	var group errgroup.Group
	for first, d := range x.duos {
		group.Go(func() error {
			for job := first; job < n*len(x.prompts); job += len(x.duos) {
				k, i := job/len(x.prompts), job%len(x.prompts)
				at := o
				at.Threshold = &thresholds[k]
				at.Seed += uint64(i) // random escalations differ between texts
				r, err := router.New(at)
				if err != nil {
					return err
				}
				w, err := d.decode(t.Context(), x.prompts[i], r, x.limit)
				if err != nil {
					return err
				}
				s.tokens[k][i], s.cloud[k][i] = float64(w.tokens()), float64(w.cloud)
				s.worth[k][i], s.of[k][i] = x.worth(i, w)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return s
}

// alone returns the ends of the curves of all policies: the small model alone, and the large one alone.
func (x texts) alone(t testing.TB) sweep {
	t.Helper()
	never := x.sweep(t, router.Options{}, []float64{0})
	return never.and(x.sweep(t, router.Options{Policy: router.Always}, []float64{1}))
}

// thresholds returns the thresholds that would escalate the given shares of the tokens that the small model alone
// decodes.
func (x texts) thresholds(t testing.TB, o router.Options, shares []float64) (all []float64) {
	t.Helper()
	if o.Policy == router.Random {
		return shares
	}
	r, err := router.New(o)
	require.NoError(t, err)
	never, err := router.New(router.Options{})
	require.NoError(t, err)
	var said []router.Verdict
	for _, prompt := range x.prompts[:min(len(x.prompts), 100)] {
		w, err := x.duos[0].decode(t.Context(), prompt, never, x.limit)
		require.NoError(t, err)
		out, err := x.duos[0].small.last(t.Context(), w.ids[:len(w.ids)-1], w.tokens(), r.Want(backend.Want{K: 2}))
		require.NoError(t, err)
		for i := range out {
			said = append(said, router.Verdict{Confidence: r.Confidence(w.prompt+i, &out[i])})
		}
	}
	rank := router.Rank(said)
	for _, s := range shares {
		all = append(all, rank.Threshold(s))
	}
	return all
}
