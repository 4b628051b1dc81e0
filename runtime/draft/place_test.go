package draft

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// allowed reports whether a token may follow a text; at least one may.
func (w *world) allowed(text uint64, token int32) bool {
	return w.masked == 0 || token == int32(mix(text, w.seed+80)%uint64(w.vocab)) ||
		share(mix(mix(text, uint64(token)), w.seed+81)) >= w.masked
}

// local returns the small model's token: its choice, or the best allowed candidate, or the first allowed token.
func (w *world) local(text uint64, pos int, head *backend.Output) int32 {
	id := w.pick(pos, head)
	for i := 0; !w.allowed(text, id); i++ {
		if i < len(head.Top) {
			id = head.Top[i].ID
		} else {
			id = int32(i - len(head.Top))
		}
	}
	return id
}

// best returns the large model's best tokens: its choice, unless that is a less likely sample, and a few more.
func (w *world) best(text uint64, choice int32) (top []terms.Candidate) {
	for i := range 4 {
		id := int32(mix(text, w.seed+90+uint64(i)) % uint64(w.vocab))
		if i == 0 && mix(text, w.seed+89)%4 > 0 {
			id = choice
		}
		top = append(top, terms.Candidate{ID: id, LogProb: float32(-1 - i)})
	}
	return top
}

// taken returns the result of an answer: its token, or the first of its best tokens that is allowed; with another
// score, the best one by that.
func (w *world) taken(text uint64, choice int32) (int32, bool) {
	if w.allowed(text, choice) && !w.ranked {
		return choice, true
	}
	found, bestValue := int32(-1), uint64(0)
	for i, c := range w.best(text, choice) {
		value := uint64(10 - i)
		if w.ranked {
			value = mix(mix(text, uint64(c.ID)), w.seed+99)
		}
		if w.allowed(text, c.ID) && value > bestValue {
			found, bestValue = c.ID, value
		}
	}
	return found, found >= 0
}

// fakePlace is a place in a world.
type fakePlace struct {
	*world
	text uint64
}

func (p fakePlace) Pick(pos int, head *backend.Output) int32 { return p.local(p.text, pos, head) }

// Take uses only its arguments.
func (p fakePlace) Take(_ int, token int32, top []terms.Candidate) (int32, bool) {
	if !p.ranked && p.Allows(token) {
		return token, true
	}
	found, bestValue := int32(-1), uint64(0)
	for i, c := range top {
		value := uint64(10 - i)
		if p.ranked {
			value = mix(mix(p.text, uint64(c.ID)), p.seed+99)
		}
		if p.Allows(c.ID) && value > bestValue {
			found, bestValue = c.ID, value
		}
	}
	return found, found >= 0
}

func (p fakePlace) Allows(token int32) bool { return p.allowed(p.text, token) }

func (p fakePlace) Behind(token int32) Place { return fakePlace{p.world, then(p.text, token)} }

// TestAnsweredLogProbs: of the best tokens with an answer the requested number is shown, and the log-probability of the
// answer's token wherever it is among them.
func TestAnsweredLogProbs(t *testing.T) {
	top := []terms.Candidate{{ID: 7, LogProb: -1}, {ID: 5, LogProb: -2}, {ID: 9, LogProb: -3}}
	r := newRules(Options{Top: 2}, 0)
	for _, c := range top {
		assert.Equal(t, &LogProbs{Token: c.LogProb, Top: top[:2]}, r.answerLogProbs(top, c.ID))
	}
	unknown := r.answerLogProbs(top[:1], 6)
	assert.True(t, math.IsNaN(float64(unknown.Token)))
	assert.Equal(t, top[:1], unknown.Top)
	assert.Nil(t, new(rules).answerLogProbs(top, 7))
}

// newPlaced returns a schedule in which only some tokens are allowed: with routing, answers ahead, and verification.
func newPlaced(seed uint64) *schedule {
	s := newVerified(seed)
	r := rand.New(rand.NewPCG(seed, 12))
	if r.IntN(2) == 0 {
		s.Verify, s.Margin, s.Dial, s.VerifyEvery, s.CheckEvery, s.Preview = false, 0, nil, 0, 0, false
	}
	s.Audit = false
	s.world.masked, s.K = 0.01+0.9*r.Float64(), 4
	if !s.Verify && r.IntN(2) == 0 {
		s.world.ranked, s.Ahead = true, 0
	}
	s.Place = fakePlace{&s.world, hashOf(s.prompt)}
	return s
}

// TestPlacesPipelinedEqualsSerial checks Promise 1 with allowed tokens and rules of taking answers that are functions
// of the text.
func TestPlacesPipelinedEqualsSerial(t *testing.T) {
	racing.Spare(t)
	cases := 1000
	if testing.Short() {
		cases = 250
	}
	var total verifiedSums
	kept := 0
	for _, seeds := range randomCases(t, 1, cases) {
		bubble.Test(t, func(t *testing.T) {
			for _, seed := range seeds {
				s := newPlaced(seed)
				for _, mode := range []Mode{Serial, Pipelined} {
					sum, err := s.checkVerified(mode)
					require.NoError(t, err, "mode %d, %s=%d: %+v", mode, oneSeed, seed, s)
					total.add(sum)
					kept += sum.Kept
				}
			}
		})
	}
	t.Logf("%+v, %d kept", total, kept)
	if os.Getenv(oneSeed) != "" {
		return
	}
	assert.Positive(t, kept, "the schedules have to reach all paths")
	assert.Positive(t, total.Turned)
	assert.Positive(t, total.Known)
	assert.Positive(t, total.Accepted)
	assert.Positive(t, total.Hits)
}
