package draft

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// fakeDrafter drafts the tokens of a known text, some of them wrongly.
type fakeDrafter struct {
	*testing.T
	whole   []int32
	right   func(pos int) float64 // probability that the draft at a position is right, which it also says
	context int
	one     time.Duration // the time of a draft; further tokens of a call take a fifth
	text    []int32
	base    int // position of the first token of text
	read    int // tokens
	calls   int
	fails   int // this call fails; 0: none
}

func (d *fakeDrafter) Context() int { return d.context }

func (d *fakeDrafter) Known(text []int32) int { return terms.CommonPrefix(d.text, text[:len(text)-1]) }

func (d *fakeDrafter) Read(_ context.Context, text []int32, heads int) ([]backend.Output, error) {
	if d.calls++; d.calls == d.fails {
		return nil, errFake
	}
	require.LessOrEqual(d, len(text)+1, d.context)
	news := len(text) - d.Known(text)
	require.LessOrEqual(d, heads, news)
	d.read += news
	time.Sleep(d.one + d.one/5*time.Duration(news-1))
	d.text = slices.Clone(text)
	d.base = 0
	sure := max(1, len(text)-lookup.MostRows) // the rest may be drafts
	for !slices.Equal(text[:sure], d.whole[d.base:d.base+sure]) {
		d.base++
	}
	var outs []backend.Output
	for i := len(text) - heads; i < len(text); i++ {
		pos := d.base + i + 1
		p := d.right(pos)
		token := d.whole[min(pos, len(d.whole)-1)]
		if share(mix(uint64(pos), 77)) >= p {
			token = (token + 1) % 600
		}
		outs = append(outs, backend.Output{
			Top: []backend.Candidate{{ID: token, Logit: float32(math.Log(p))}, {ID: token + 1, Logit: -9}},
		})
	}
	return outs, nil
}

// draftedText is a text that is decoded with drafts, in virtual time.
type draftedText struct {
	prompt, tokens int
	right          func(pos int) float64
	draft, rowCost float64 // times, of one token of the model
	context, fails int
	repeats        float64
	lookup         int
	ends           int32 // ids below it end the text
	seed           uint64
	drafter        *fakeDrafter // of the last text
	took           [2]time.Duration
	sum            Summary
	origins        map[Origin]int
}

// run decodes a text without and with drafts, and requires the same tokens.
func (d *draftedText) run(t *testing.T) (faster float64) {
	var texts [2][]int32
	w := &world{seed: 5 + d.seed, vocab: 600, repeats: d.repeats, ends: d.ends}
	if d.repeats > 0 {
		w.vocab = 60
	}
	prompt := []int32{1, 2, 3}
	for len(prompt) < max(4, d.prompt) {
		prompt = append(prompt, w.head(hashOf(prompt)).Top[0].ID)
	}
	d.origins = map[Origin]int{}
	for i := range texts {
		m := &fakeModel{
			world: w, slots: 10000, most: 8, calls: 100000,
			time: func(rows int) time.Duration {
				return time.Duration(float64(edgeTime) * (1 + d.rowCost*float64(rows-1)))
			},
		}
		o := Options{MaxTokens: d.tokens, Lookup: d.lookup, End: w.end, Trace: true}
		if i == 1 {
			d.drafter = &fakeDrafter{
				T: t, whole: append(slices.Clone(prompt), texts[0]...), right: d.right, context: max(d.context, 64),
				one: time.Duration(d.draft * float64(edgeTime)), fails: d.fails,
			}
			o.Drafter = d.drafter
		}
		dec, err := New(m, nil, nil, o)
		require.NoError(t, err)
		start := time.Now()
		d.sum, err = dec.Decode(t.Context(), prompt, func(e Event) bool {
			if p := e.Pass; p != nil {
				guesses := 0
				for _, n := range p.Nodes {
					if n.Guess {
						guesses++
					}
				}
				require.Len(t, p.Nodes, p.Rows)
				leaf := p.Nodes[0]
				require.Equal(t, texts[i][leaf.Pos-len(prompt)], leaf.Token)
				require.Equal(t, p.Proposed+p.Drafts, guesses)
			}
			if tok := e.Token; tok != nil {
				texts[i] = append(texts[i], tok.ID)
				if i == 1 {
					d.origins[tok.Origin]++
				}
			}
			return true
		})
		require.NoError(t, err)
		require.NoError(t, m.wrong)
		d.took[i] = time.Since(start)
	}
	require.Equal(t, texts[0], texts[1])
	require.Equal(t, d.sum.Tokens-1, d.sum.Passes+d.sum.Accepted+d.sum.DraftsAccepted, "the tokens but the last")
	return d.took[0].Seconds() / d.took[1].Seconds()
}

func always(p float64) func(int) float64 { return func(int) float64 { return p } }

// TestDraftsPay: drafts bring at least nine tenths of what the best number of them would, and never make a text slower:
// not where they are wrong, where they take too long, or where a row costs as much as a call.
func TestDraftsPay(t *testing.T) {
	racing.Spare(t)
	for _, c := range []struct{ right, draft, rowCost float64 }{
		{0.95, 0.1, 0.1}, {0.9, 0.4, 0.15}, {0.8, 0.2, 0.05}, {0.7, 0.1, 0.1}, {0.99, 0.3, 0.2}, {0.6, 0.4, 0.15},
		{0.5, 0.05, 0.05}, {0.02, 0.1, 0.1}, {0.3, 0.4, 0.2}, {0.9, 1, 0.1}, {0.95, 0.3, 1}, {0.02, 0.5, 0.5},
	} {
		bubble.Test(t, func(t *testing.T) {
			d := draftedText{prompt: 20, tokens: 600, right: always(c.right), draft: c.draft, rowCost: c.rowCost,
				context: 4096, lookup: -1}
			faster := d.run(t)
			curve := make([]float64, lookup.MostRows)
			for i := range curve {
				curve[i] = 1 + c.rowCost*float64(i)
			}
			n, best := lookup.Length(c.right, c.draft, curve)
			t.Logf("right %.2f draft %.2f row %.2f: %.2f times as fast, %.2f is possible with %d; %d of %d drafts in "+
				"%d of %d calls, %d read", c.right, c.draft, c.rowCost, faster, best, n, d.sum.DraftsAccepted,
				d.sum.Drafts, d.sum.DraftPasses, d.sum.Passes, d.drafter.read)
			assert.Greater(t, faster, max(0.97, 0.9*best))
			assert.LessOrEqual(t, faster, 1.05*max(1, best))
			assert.Equal(t, d.sum.DraftsAccepted, d.origins[Edge], "accepted drafts are the small model's")
			assert.Equal(t, 600, d.origins[Edge]+d.origins[FromCloud])
			assert.Zero(t, d.sum.Proposed, "there are no guesses from the text")
			if n == 0 {
				assert.LessOrEqual(t, d.sum.Drafts, 2)
			}
		})
	}
}

// TestDraftsBeginAgain: where drafts become good after a hopeless beginning, they are made again; and a text that stays
// hopeless costs no more than 2%.
func TestDraftsBeginAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turn := 0
		right := func(pos int) float64 {
			if pos < turn {
				return 0.02
			}
			return 0.97
		}
		d := draftedText{prompt: 20, tokens: 3000, right: right, draft: 0.2, rowCost: 0.1, context: 4096, lookup: -1}
		turn = 10000
		assert.Greater(t, d.run(t), 0.98, "hopeless")
		assert.Greater(t, d.drafter.calls, 2, "it is tried now and then")
		turn = 500
		assert.Greater(t, d.run(t), 1.5, "hopeless at first")
	})
}

// TestDraftsReadLittle: nothing is read before the answer is long enough for what drafts are expected to gain, so that
// a short answer costs nothing; and of a long prompt only the end.
func TestDraftsReadLittle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := draftedText{prompt: 200, tokens: 25, right: always(0.95), draft: 0.4, rowCost: 0.2, context: 4096}
		d.run(t)
		assert.Zero(t, d.drafter.calls)
		d.prompt, d.tokens, d.draft, d.rowCost = 2000, 200, 0.3, 0.1
		d.run(t)
		assert.Positive(t, d.sum.DraftsAccepted)
		assert.Less(t, d.drafter.read, draftWindow+400)
		d.prompt, d.tokens, d.context = 100, 300, 64
		assert.Greater(t, d.run(t), 0.97, "a context that is shorter than the text")
		assert.Positive(t, d.sum.DraftsAccepted)
	})
}

// TestDraftsAndRepeats: in a text that repeats itself guesses from it are as fast as without a drafter, and no slower
// where drafts are good too.
func TestDraftsAndRepeats(t *testing.T) {
	racing.Spare(t)
	for _, right := range []float64{0.02, 0.9} {
		bubble.Test(t, func(t *testing.T) {
			d := draftedText{prompt: 300, tokens: 400, right: always(right), draft: 0.4, rowCost: 0.1, context: 4096,
				repeats: 1}
			faster := d.run(t)
			t.Logf("right %.2f: %.2f; guesses %d of %d, drafts %d of %d", right, faster, d.sum.Accepted, d.sum.Proposed,
				d.sum.DraftsAccepted, d.sum.Drafts)
			assert.Greater(t, faster, 0.97)
			assert.Greater(t, d.sum.Accepted, 200)
			assert.LessOrEqual(t, d.sum.Accepted, d.sum.Proposed)
		})
	}
}

// TestDraftsEnd: a draft that would end the text is not evaluated, and no token after the last one that is allowed.
func TestDraftsEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ended := 0
		for seed := range uint64(40) {
			d := draftedText{
				prompt: 20, tokens: 60, right: always(0.99), draft: 0.05, rowCost: 0.01, context: 4096,
				ends: 8, seed: seed,
			}
			d.run(t)
			if d.sum.Stop == "end" {
				ended++
			}
		}
		assert.Greater(t, ended, 10)
		assert.Less(t, ended, 40)
	})
}

// TestGuessBehindDrafts: a guess from the text follows the drafts before it.
func TestGuessBehindDrafts(t *testing.T) {
	text := []int32{1, 2, 3, 4, 1, 2}
	r := runOf(Options{}, text, nil)
	length, next := r.guesser.findRepeat(append(text, 3))
	assert.Equal(t, 3, length)
	assert.Equal(t, int32(4), next)
	length, _ = r.guesser.findRepeat(append(text, 9))
	assert.Zero(t, length)
	length, _ = runOf(Options{Lookup: -1}, text, nil).guesser.findRepeat(text)
	assert.Zero(t, length, "no guesses are made")
}

// TestDrafterFails: a text goes on without drafts after an error, which its summary has.
func TestDrafterFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for fails := range 6 {
			d := draftedText{prompt: 20, tokens: 100, right: always(0.9), draft: 0.1, rowCost: 0.1, context: 4096,
				fails: fails + 1}
			d.run(t)
			require.ErrorIs(t, d.sum.Err, errFake)
			require.Equal(t, fails+1, d.drafter.calls, "it is not called again")
		}
	})
}

// TestPays: a long call is worth its time if the answer is expected to become long enough, and it is not near its end;
// without a gain it takes at most a hundredth of the time since the last one.
func TestPays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := runOf(Options{MaxTokens: 100, Drafter: new(fakeDrafter)}, make([]int32, 10), nil)
		r.guesser.cost.Learn(1, 1)
		r.guesser.drafter.token, r.guesser.drafter.read = 0.1, time.Now()
		for shown := range 100 {
			r.tree.text = make([]int32, 10+shown)
			assert.Equal(t, shown >= 7 && shown <= 80, r.guesser.shouldCatchUp(100, 1, 2),
				"10 s, half a second for each token after %d", shown)
		}
		time.Sleep(999 * time.Second)
		assert.False(t, r.guesser.shouldCatchUp(100, 0, 2))
		time.Sleep(time.Second)
		assert.True(t, r.guesser.shouldCatchUp(100, 0, 2))
	})
}

// TestDrafterCut: an error of a drafter that follows from the end of the text is no reason of its own.
func TestDrafterCut(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, want := range map[context.Context]error{t.Context(): errFake, over: nil} {
		r := runOf(Options{Drafter: &fakeDrafter{T: t, fails: 1}}, nil, nil)
		_, ok := r.guesser.callDrafter(ctx, []int32{1, 2}, 0, 1, 1)
		assert.False(t, ok)
		assert.True(t, r.guesser.drafter.failed)
		assert.Equal(t, want, r.guesser.drafter.cause)
	}
}

// TestDrafterAlone: a drafter excludes a cloud.
func TestDrafterAlone(t *testing.T) {
	cloud := &cloudFunc{ask: func(context.Context, Question) (Answer, error) { return Answer{}, errors.New("asked") }}
	_, err := New(&fakeModel{world: &world{vocab: 600}}, nil, cloud, Options{Drafter: new(fakeDrafter)})
	assert.ErrorContains(t, err, "drafter and a cloud", fmt.Sprint(err))
}

// TestKnownDrafts: what is known of a drafter is shared by the texts that are given it, or begins with the text.
func TestKnownDrafts(t *testing.T) {
	known := new(Drafts)
	own, drafting := Options{Drafter: new(fakeDrafter)}, Options{Drafter: new(fakeDrafter), Drafts: known}
	assert.Same(t, known, newDrafter(drafting, time.Time{}).Drafts)
	assert.NotNil(t, newDrafter(own, time.Time{}).Drafts)
	assert.Nil(t, newDrafter(Options{Drafts: known}, time.Time{}))
}
