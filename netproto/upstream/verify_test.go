package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// choices returns the expected findings in a context, by asking the model about each position.
func choices(e *fakeengine.Engine, q terms.Job) (all []terms.Finding) {
	for pos := q.AuditFrom; pos < len(q.Context); pos++ {
		top, stands := truth(e, q.Context[:pos]), q.Context[pos]
		at := slices.IndexFunc(top, func(c terms.Candidate) bool { return c.ID == stands })
		f := terms.Finding{Pos: pos, Token: top[0].ID, Score: top[0].LogProb, Stands: top[at].LogProb}
		if !q.Sampling.Greedy() {
			f.Token, f.Score, f.Stands, _ = drawn(q.Sampling, pos, top[:q.Sampling.TopK], stands)
		}
		f.LogProb = top[slices.IndexFunc(top, func(c terms.Candidate) bool { return c.ID == f.Token })].LogProb
		if q.Verify != terms.EachScore {
			f.Score, f.Stands = 0, 0
		}
		if f.Token != stands {
			all = append(all, f)
		}
	}
	return all
}

// same compares findings, with probabilities up to float32.
func same(t *testing.T, want, have []terms.Finding) {
	t.Helper()
	require.Len(t, have, len(want))
	for i, f := range have {
		for _, x := range []struct {
			to   *float32
			from float32
		}{{&f.LogProb, want[i].LogProb}, {&f.Score, want[i].Score}, {&f.Stands, want[i].Stands}} {
			if *x.to != x.from {
				require.InDelta(t, x.from, *x.to, 1e-5)
				*x.to = x.from
			}
		}
		require.Equal(t, want[i], f)
	}
}

// exact returns the kinds of engine with exact audits.
func exact() (all []kindOfEngine) {
	return slices.DeleteFunc(kinds(), func(k kindOfEngine) bool { return k.audit != netproto.ExactAudit })
}

// TestVerify: each position from the requested one on is verified, greedy and sampled, whatever is in the engine's
// cache or in the memory of answers; repeated questions have the same result.
func TestVerify(t *testing.T) {
	for _, c := range exact() {
		t.Run(c.name, func(t *testing.T) {
			u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one"))
			r := rand.New(rand.NewPCG(5, 6))
			found, drawnFor, cached := 0, 0, 0
			text := []int32(nil)
			for i := range many(80) {
				if i%8 == 0 {
					text = contextOf(r, 20+r.IntN(30))
				}
				for j := range text[1:] { // like a small model, which often agrees with the large one
					if r.IntN(8) == 0 {
						text[j+1] = truth(c.engine, text[:j+1])[0].ID
					}
				}
				q := question(uint64(i%3), text[:2+r.IntN(len(text)-2)])
				q.K, q.AuditFrom = r.IntN(4), 1+r.IntN(len(q.Context)-1)
				q.Verify = terms.Verify(r.IntN(3))
				if r.IntN(2) == 0 {
					q.Sampling = terms.Sampling{Temperature: 1, TopK: 1 + r.IntN(c.choices), Seed: r.Uint64() >> 8}
				}
				a := mustAsk(t, u, q)
				if q.Verify == terms.AsItComes {
					cached++
					continue
				}
				require.Equal(t, len(q.Context)-q.AuditFrom, a.Audited)
				same(t, choices(c.engine, q), a.Audit)
				found += len(a.Audit)
				if !q.Sampling.Greedy() {
					drawnFor++
				}
				again := mustAsk(t, u, q)
				require.Equal(t, a.Audit, again.Audit)
				require.Equal(t, a.Audited, again.Audited)
			}
			assert.Positive(t, found)
			assert.Positive(t, drawnFor)
			assert.Positive(t, cached)
		})
	}
}

// TestVerifyCached: vLLM gives no rows for tokens in its prefix cache: then, and only then, the whole context is
// computed again. SGLang gives all rows at once.
func TestVerifyCached(t *testing.T) {
	for _, c := range exact() {
		t.Run(c.name, func(t *testing.T) {
			u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one"))
			text := contextOf(rand.New(rand.NewPCG(7, 8)), 60)
			ask := func(n, from int, verify terms.Verify) int {
				t.Helper()
				before := len(c.engine.Calls(c.path))
				q := question(1, text[:n])
				q.AuditFrom, q.Verify = from, verify
				a := mustAsk(t, u, q)
				if verify != terms.AsItComes {
					require.Equal(t, n-from, a.Audited)
					same(t, choices(c.engine, q), a.Audit)
				}
				return len(c.engine.Calls(c.path)) - before
			}
			twice := 1
			if c.engine.Dialect == "vllm" {
				twice = 2
			}
			assert.Equal(t, 1, ask(40, 20, terms.EachChoice), "nothing is cached")
			assert.Equal(t, 1, ask(50, 40, terms.EachChoice), "40 tokens were sent, two blocks of 16 are cached")
			assert.Equal(t, twice, ask(51, 20, terms.EachChoice))
			assert.Equal(t, 1, ask(52, 20, terms.AsItComes))
			if calls := c.engine.Calls(c.path); twice == 2 {
				all := calls[len(calls)-2]
				assert.Regexp(t, `"`+u.name+`-\d+-all"`, string(all.Body), "request ids are unique")
				assert.Contains(t, string(all.Body), `"skip_reading_prefix_cache":true`)
			}
		})
	}
}

// TestVerifyRemembered: a remembered answer is used only if it verified at least as much, in the same way.
func TestVerifyRemembered(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "sglang"}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	q := question(1, contextOf(rand.New(rand.NewPCG(1, 1)), 30))
	const no, choose, score = terms.AsItComes, terms.EachChoice, terms.EachScore
	for i, c := range []struct {
		from   int
		verify terms.Verify
		asked  bool
	}{
		{0, no, true}, {20, choose, true}, {20, choose, false}, {25, choose, false}, {19, choose, true},
		{20, choose, false}, {25, score, true}, {26, score, false}, {24, score, true}, {0, choose, false},
		{30, choose, false},
		{35, score, false}, {26, choose, true}, {26, score, false}, {10, no, false}, {0, no, false},
	} {
		before := len(e.Calls("/generate"))
		q.AuditFrom, q.Verify = c.from, c.verify
		a := mustAsk(t, u, q)
		asked := len(e.Calls("/generate")) - before
		assert.Equal(t, c.asked, asked == 1, "question %d, %+v", i, c)
		if c.verify == no || c.from < 1 || c.from >= 30 {
			assert.Zero(t, a.Audited)
			continue
		}
		assert.Equal(t, 30-c.from, a.Audited)
		same(t, choices(e, q), a.Audit)
	}
	q.K, q.AuditFrom, q.Verify = 3, 2, no // more candidates, and another kind of verification
	mustAsk(t, u, q)
	before := len(e.Calls("/generate"))
	q.AuditFrom, q.Verify = 26, score
	mustAsk(t, u, q)
	assert.Len(t, e.Calls("/generate"), before, "verified answers stay")
}

// TestCannotVerify: what an engine cannot verify is refused with the reason, without asking the engine.
func TestCannotVerify(t *testing.T) {
	for _, c := range kinds() {
		u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one"))
		before := len(c.engine.Calls(c.path))
		q := question(1, []int32{1, 2, 3, 4})
		q.AuditFrom, q.Verify = 2, terms.EachChoice
		_, err := u.Ask(t.Context(), q)
		if c.audit == netproto.ExactAudit {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, netproto.CannotVerify, c.name)
		assert.Len(t, c.engine.Calls(c.path), before)
	}
}

// TestUnheardAudit: an invalid audit does not affect the answer, unless the question is for verification.
func TestUnheardAudit(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "sglang"}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	e.Fault = replying(`{"output_ids":[5],"meta_info":{"input_top_logprobs":[null,[[-1,7,null]]]}}`)
	q := question(1, []int32{1, 2, 3})
	q.AuditFrom = 2
	a := mustAsk(t, u, q)
	assert.EqualValues(t, 5, a.Token)
	assert.Zero(t, a.Audited)
	assert.Empty(t, a.Audit)
	q.Verify = terms.EachScore
	_, err := u.Ask(t.Context(), q)
	assert.ErrorIs(t, err, netproto.Failed)
	assert.ErrorIs(t, err, dialect.ErrReply, "the reason")
}

// TestVerifyTooFew: sampling needs as many probabilities at each position as at the end.
func TestVerifyTooFew(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "sglang"}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path == "/generate" {
			fmt.Fprint(w, `{"output_ids":[5],"meta_info":{"output_top_logprobs":[[[-1,7,null],[-2,8,null]]],`+
				`"input_top_logprobs":[null,[[-1,7,null]]],"input_token_logprobs":[[null,0,null],[-2,2,null]]}}`)
		}
		return r.URL.Path == "/generate"
	}
	q := question(1, []int32{1, 2})
	q.AuditFrom, q.Verify, q.Sampling = 1, terms.EachChoice, terms.Sampling{Temperature: 1, TopK: 2}
	_, err := u.Ask(t.Context(), q)
	require.ErrorIs(t, err, netproto.Failed)
	assert.ErrorContains(t, err, "the engine returned 1 probabilities for position 1, drawing needs 2")
}

// TestDrawFails: an error of drawing a token, at the end or at a position to be verified, is an error of the question,
// and so is a token that is no candidate there.
func TestDrawFails(t *testing.T) {
	broken := errors.New("no noise")
	w := fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "sglang"}})
	for at, want := range map[int]string{4: "no noise", 3: "no noise", 2: "token 299 was drawn at position 2"} {
		t.Run(fmt.Sprint("position ", at), func(t *testing.T) {
			o := options(w, "one")
			o.Draw = func(
				s terms.Sampling, pos int, top []terms.Candidate, stands int32,
			) (choice int32, score, standing float32, err error) {
				switch {
				case pos == at && at > 2:
					return 0, 0, 0, broken
				case pos == at:
					return 299, 0, 0, nil
				}
				return drawn(s, pos, top, stands)
			}
			q := question(1, []int32{1, 2, 3, 4})
			q.AuditFrom, q.Verify, q.Sampling = 1, terms.EachChoice, terms.Sampling{Temperature: 1, TopK: 2}
			_, err := open(t, o).Ask(t.Context(), q)
			assert.ErrorContains(t, err, want)
			assert.Equal(t, at > 2, errors.Is(err, broken))
			assert.Equal(t, at == 2, errors.Is(err, netproto.Failed))
		})
	}
}

// TestAuditStaysTrue: an engine that returns with a smaller audit than promised to devices stays out of service.
func TestAuditStaysTrue(t *testing.T) {
	inWorld(t, []*fakeengine.Engine{{Dialect: "vllm"}}, nil, func(t *testing.T, w *fakeengine.Wire, u *Upstream) {
		w.Set("0", nil)
		require.Error(t, ask(t, u, 1, time.Second))
		w.Set("0", &fakeengine.Engine{Dialect: "vllm", NoGenerate: true})
		time.Sleep(3 * longestPause)
		synctest.Wait()
		require.Error(t, u.Ready())
		assert.ErrorContains(t, u.Stats().Engines[0].Why,
			"its audit is none, this gateway promises its clients one that is exact")
	})
}

// TestNext: Next gives the same tokens as Ask, greedy and sampled, and each remembers the results of the other.
func TestNext(t *testing.T) {
	for _, c := range kinds() {
		u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one"))
		q := question(1, []int32{1, 2, 3, 4})
		for _, s := range []terms.Sampling{{}, {Temperature: 1, TopK: 5, Seed: 3}} {
			q.Sampling = s
			token, err := u.Next(t.Context(), q)
			require.NoError(t, err)
			want := truth(c.engine, q.Context)
			if s.Temperature > 0 {
				want[0].ID, _, _, _ = drawn(s, 4, want[:5], -1)
			}
			assert.Equal(t, want[0].ID, token)
			before := len(c.engine.Calls(c.path))
			a := mustAsk(t, u, q)
			assert.Equal(t, token, a.Token)
			assert.Len(t, c.engine.Calls(c.path), before)
		}
	}
}

// TestNextWhileBusy: Next is refused while an engine has questions, reports that it is full, or is out of service.
func TestNextWhileBusy(t *testing.T) {
	f := &fault{doing: hang}
	inWorld(t, []*fakeengine.Engine{{Dialect: "llama", Slots: 4, Fault: f.answer}}, nil,
		func(t *testing.T, w *fakeengine.Wire, u *Upstream) {
			f.on.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 2)
			for i := range 2 {
				go func() { _, err := u.Ask(ctx, question(uint64(i), []int32{1, 2, int32(i)})); done <- err }()
			}
			synctest.Wait()
			_, err := u.Next(t.Context(), question(9, []int32{3}))
			require.ErrorIs(t, err, netproto.Busy)
			cancel()
			<-done
			<-done
			f.on.Store(false)
			_, err = u.Next(t.Context(), question(9, []int32{3}))
			require.NoError(t, err)
			f.doing = saying(503, `{}`, "Retry-After", "60")
			f.on.Store(true)
			_, err = u.Ask(t.Context(), question(1, []int32{4}))
			require.ErrorIs(t, err, netproto.Busy)
			_, err = u.Next(t.Context(), question(9, []int32{5}))
			require.ErrorIs(t, err, netproto.Busy)
			assert.ErrorIs(t, err, errBusy)
			f.on.Store(false)
			mustAsk(t, u, question(1, []int32{4}))
			_, err = u.Next(t.Context(), question(9, []int32{5}))
			require.NoError(t, err, "it has answered since then")
			w.Set("0", nil)
			require.Error(t, ask(t, u, 1, time.Second))
			_, err = u.Next(t.Context(), question(9, []int32{6}))
			require.ErrorIs(t, err, netproto.Failed)
		})
}

// TestOwnInfo: the end tokens and the identity of the devices' model are reported to the gateway.
func TestOwnInfo(t *testing.T) {
	o := options(fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "sglang"}}), "one")
	o.Ends, o.Identity.Tokenizer, o.Identity.Template = []int32{3, 9}, netproto.Digest{1}, netproto.Digest{2}
	info := open(t, o).Info()
	assert.Equal(t, o.Ends, info.Ends)
	assert.Equal(t, o.Identity, info.Identity)
}
