package collect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// definition returns the label of a rule for position j of an answer by its definition, decoding every text from the
// start.
func definition(
	t testing.TB, o *Options, rule string, prompt, answer []int32, j int, p trace.Position, right bool,
	grade func(string) task.Verdict,
) trace.Verdict {
	tokens, err := o.Edge.Tokenizer()
	require.NoError(t, err)
	outcome := func(e *engine.Engine, id int32) bool { // reports whether the answer is right if e continues after id
		all := append(slices.Clone(answer[:j]), id)
		if !tokens.IsEnd(id) && len(all) < o.MaxTokens {
			text := append(slices.Clone(prompt), all...)
			all = append(all, generated(t, e, text, o.MaxTokens-len(all), terms.Sampling{})...)
		}
		if last := len(all) - 1; tokens.IsEnd(all[last]) {
			all = all[:last]
		} else {
			return false // cut: the demo's questions have no conclusion before it
		}
		return grade(tokens.Decode(all)) == task.Right
	}
	worth := func(asked, kept *engine.Engine) trace.Verdict {
		switch ask, keep := outcome(asked, p.Large), outcome(kept, p.Small); {
		case ask && !keep:
			return trace.Escalate
		case keep && !ask:
			return trace.Spoil
		}
		return trace.Keep
	}
	switch {
	case rule == RuleCiter && o.Reference == Routed && p.Small == p.Large:
		return trace.Keep
	case rule == RuleCiter && o.Reference == Routed:
		return worth(o.Large, o.Edge)
	case rule == RuleCiter && !right:
		return trace.Unknown
	case rule == RuleCiter && p.Small == p.Reference:
		return trace.Keep
	case rule == RuleCiter && p.Large == p.Reference:
		return trace.Escalate
	case p.Small == p.Large:
		return trace.Keep
	case rule == RuleCiter:
		return worth(o.Large, o.Edge)
	case rule == RuleConsequence:
		return worth(o.Edge, o.Edge)
	}
	return trace.Escalate
}

// TestLabels: labels equal those of the definition for all kinds of answers. With the large model's own answers, the
// rule of CITER equals disagreement wherever it decides.
func TestLabels(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes each text anew for each label: make long")
	}
	o := demoOptions(t, 5, engine.Options{})
	o.MaxTokens = 40
	seen := map[string]map[trace.Verdict]int{}
	for _, reference := range references() {
		o.Reference = reference
		set, _ := gather(t, o)
		for number, q := range o.Data.Questions {
			prompt, answer := textOf(t, &o, set, number)
			about, from, to := set.Prompt(number)
			decided := false // a later place is labelled by consequence
			for i := to - 1; i >= from; i-- {
				p := set.At(i)
				for r, rule := range o.Labels {
					want := definition(t, &o, rule, prompt, answer, i-from, p, about.Right, q.Grade)
					if rule == RuleConsequence {
						if decided && p.Small == p.Reference {
							want = trace.Keep
						}
						decided = decided || want == trace.Escalate
					}
					require.Equal(t, want, p.Labels[r], "%s of %s, question %d, position %d", rule,
						reference, number, i-from)
					if seen[rule] == nil {
						seen[rule] = map[trace.Verdict]int{}
					}
					seen[rule][want]++
				}
				if citer := p.Labels[1]; reference == Large && citer != trace.Unknown {
					require.Equal(t, p.Labels[0], citer)
				}
			}
		}
	}
	for rule, of := range seen {
		assert.Positive(t, of[trace.Keep], rule)
		assert.Positive(t, of[trace.Escalate], rule)
		assert.Equal(t, rule == RuleCiter, of[trace.Unknown] > 0, rule)
	}
}

// TestGradedOnce: an answer that many choices lead to is graded once, because grading may run a program.
func TestGradedOnce(t *testing.T) {
	o := demoOptions(t, 1, engine.Options{})
	o.MaxTokens, o.Reference, o.Labels = 64, Small, []string{RuleCiter, RuleConsequence}
	grade, graded := o.Data.Questions[0].Grade, map[string]int{}
	o.Data.Questions[0].Grade = func(answer string) task.Verdict {
		graded[answer]++
		return grade(answer)
	}
	set, _ := gather(t, o)
	assert.Greater(t, set.Len(), 1)
	assert.Greater(t, len(graded), 1)
	for answer, times := range graded {
		assert.Equal(t, 1, times, answer)
	}
}

// script is a model that continues answers as given: from the answer so far to what follows.
type script struct {
	tokens *tokenizer.Tokenizer
	prompt int
	lines  map[string]string
	asked  []string
}

func (s *script) closeModel() {}

func (s *script) readChoices(context.Context, []int32, int) ([]largeChoice, error) { return nil, nil }

func (s *script) generateTokens(
	_ context.Context, text []int32, most int, o terms.Sampling, yield func(id int32) bool,
) error {
	said := s.tokens.Decode(text[s.prompt:])
	s.asked = append(s.asked, said)
	rest, ok := s.lines[said]
	if !ok || !o.Greedy() {
		return errors.New("unexpected:  " + said)
	}
	ids := s.tokens.Encode(rest, false)
	end, _ := s.tokens.EOS()
	for _, id := range append(ids, end)[:min(len(ids)+1, most)] {
		if !yield(id) {
			break
		}
	}
	return nil
}

// scripted returns a worker and a draft of a reference, with models that follow scripts. Answers that contain "yes" are
// right.
func scripted(
	t *testing.T, o Options, reference string, small, large map[string]string,
) (*worker, *pendingAnswer, *script, *script) {
	tokens, err := open(t, demo.Small(), engine.Options{}).Tokenizer()
	require.NoError(t, err)
	w := &worker{Plan: &Plan{o: o}, tokens: tokens}
	if w.o.Data == nil {
		w.o.Data = new(task.Set)
	}
	d := &pendingAnswer{prompt: []int32{1, 2}, answer: tokens.Encode(reference, false)}
	d.question.Grade = func(answer string) task.Verdict {
		if strings.Contains(answer, "yes") {
			return task.Right
		}
		return task.Wrong
	}
	d.about.Graded, d.about.Right = true, d.question.Grade(reference) == task.Right
	a, b := &script{tokens, 2, small, nil}, &script{tokens, 2, large, nil}
	d.small, d.large = newChoiceTree(a, d.prompt, 200, tokens.IsEnd), newChoiceTree(b, d.prompt, 200, tokens.IsEnd)
	return w, d, a, b
}

// ruleCase is an answer of which the second token is judged. The choices are letters.
type ruleCase struct {
	name             string
	o                Options
	reference        string
	small, large     string // choices at the second token
	goSmall, goLarge map[string]string
	want             map[string]trace.Verdict
	asked            int // tokens of both models
}

func ruleCases() []ruleCase {
	routed, given := Options{Reference: Routed}, Options{Reference: Given}
	return []ruleCase{
		{"all agree", given, "ab yes", "b", "b", nil, nil,
			map[string]trace.Verdict{RuleDisagreement: trace.Keep, RuleCiter: trace.Keep}, 0},
		{"both choose another", given, "ab yes", "c", "c", nil, nil,
			map[string]trace.Verdict{RuleDisagreement: trace.Keep, RuleCiter: trace.Keep}, 0},
		{"the small one is right", given, "ab yes", "b", "c", nil, nil,
			map[string]trace.Verdict{RuleDisagreement: trace.Escalate, RuleCiter: trace.Keep}, 0},
		{"the large one is right", given, "ab yes", "c", "b", nil, nil,
			map[string]trace.Verdict{RuleDisagreement: trace.Escalate, RuleCiter: trace.Escalate}, 0},
		{"neither, the large one gets there", given, "ab yes", "c", "d", map[string]string{"ac": " no"},
			map[string]string{"ad": " yes"}, map[string]trace.Verdict{RuleCiter: trace.Escalate}, 2},
		{"neither, both get there", given, "ab yes", "c", "d", map[string]string{"ac": " yes"},
			map[string]string{"ad": " yes"}, map[string]trace.Verdict{RuleCiter: trace.Keep}, 2},
		{"neither, none gets there", given, "ab yes", "c", "d", map[string]string{"ac": " no"},
			map[string]string{"ad": " no"}, map[string]trace.Verdict{RuleCiter: trace.Keep}, 2},
		{"neither, the small one gets there", given, "ab yes", "c", "d", map[string]string{"ac": " yes"},
			map[string]string{"ad": " no"}, map[string]trace.Verdict{RuleCiter: trace.Spoil}, 2},
		{"a wrong reference", given, "ab no", "b", "c", nil, nil,
			map[string]trace.Verdict{RuleDisagreement: trace.Escalate, RuleCiter: trace.Unknown}, 0},
		{"routed, it matters", routed, "ab no", "b", "c", nil, map[string]string{"ac": " yes"},
			map[string]trace.Verdict{RuleDisagreement: trace.Escalate, RuleCiter: trace.Escalate}, 1},
		{"routed, it does not", routed, "ab yes", "b", "c", nil, map[string]string{"ac": " yes"},
			map[string]trace.Verdict{RuleDisagreement: trace.Escalate, RuleCiter: trace.Keep}, 1},
		{"routed, agreed", routed, "ab no", "c", "c", nil, nil,
			map[string]trace.Verdict{RuleDisagreement: trace.Keep, RuleCiter: trace.Keep}, 0},
	}
}

// TestRules: the rules give the known labels. The reference has one position that matters, its second token.
func TestRules(t *testing.T) {
	for _, c := range ruleCases() {
		t.Run(c.name, func(t *testing.T) {
			w, d, small, large := scripted(t, c.o, c.reference, c.goSmall, c.goLarge)
			one := func(s string) int32 {
				ids := w.tokens.Encode(s, false)
				require.Len(t, ids, 1)
				return ids[0]
			}
			d.answer = append([]int32{one("a"), one("b")},
				w.tokens.Encode(strings.TrimPrefix(c.reference, "ab"), false)...)
			end, _ := w.tokens.EOS()
			d.answer = append(d.answer, end)
			positions := make([]trace.Position, len(d.answer))
			for i, id := range d.answer {
				positions[i] = trace.Position{Reference: id, Small: id, Large: id}
			}
			positions[1].Small, positions[1].Large = one(c.small), one(c.large)
			for _, rule := range rules() {
				if _, ok := c.want[rule]; ok {
					w.o.Labels = append(w.o.Labels, rule)
				}
			}
			require.NoError(t, w.labelPositions(t.Context(), d, positions))
			for r, rule := range w.o.Labels {
				assert.Equal(t, c.want[rule], positions[1].Labels[r], rule)
				other := trace.Keep
				if rule == RuleCiter && c.want[rule] == trace.Unknown {
					other = trace.Unknown
				}
				assert.Equal(t, other, positions[0].Labels[r], rule)
			}
			got := len(small.asked) + len(large.asked)
			assert.Equal(t, d.small.rollouts+d.large.rollouts, got)
			assert.Equal(t, c.asked, got)
		})
	}
}

// TestConsequenceDecided: of the choices before one that matters, only those that leave the reference are compared.
func TestConsequenceDecided(t *testing.T) {
	w, d, _, _ := scripted(t, Options{Labels: []string{RuleConsequence}}, "abc yes",
		map[string]string{"abd": " no", "abc": " yes", "ae": " no"}, nil)
	one := func(letter string) int32 { return w.tokens.Encode(letter, false)[0] }
	a, b, c := one("a"), one("b"), one("c")
	end, _ := w.tokens.EOS()
	d.answer = append(append([]int32{a, b, c}, w.tokens.Encode(" yes", false)...), end)
	positions := make([]trace.Position, len(d.answer))
	for i, id := range d.answer {
		positions[i] = trace.Position{Reference: id, Small: id, Large: id}
	}
	positions[0].Large, positions[1].Small, positions[2].Small = one("f"), one("e"), one("d")
	require.NoError(t, w.labelPositions(t.Context(), d, positions))
	var got []trace.Verdict
	for _, p := range positions[:3] {
		got = append(got, p.Labels[0])
	}
	assert.Equal(t, []trace.Verdict{trace.Keep, trace.Keep, trace.Escalate}, got)
}

// TestTree: the tree asks for nothing twice, and what it holds is what the model says.
func TestTree(t *testing.T) {
	_, d, s, _ := scripted(t, Options{}, "", map[string]string{"": "a bc", "x": "y bc", "a b": "??"}, nil)
	tree := d.small
	goOn := func(from string) string {
		all, err := tree.continueAnswer(t.Context(), s.tokens.Encode(from, false))
		require.NoError(t, err)
		last := len(all) - 1
		require.True(t, tree.isEnd(all[last]))
		return s.tokens.Decode(all[:last])
	}
	assert.Equal(t, "a bc", goOn(""))
	assert.Equal(t, "a bc", goOn(""))
	assert.Equal(t, "a bc", goOn("a"))
	assert.Equal(t, []string{""}, s.asked)
	assert.Equal(t, "xy bc", goOn("x"))
	assert.Equal(t, []string{"", "x"}, s.asked)
	assert.Equal(t, 2, tree.rollouts)

	end, _ := s.tokens.EOS()
	all, err := tree.continueAnswer(t.Context(), []int32{end})
	require.NoError(t, err)
	assert.Equal(t, []int32{end}, all)
	_, err = tree.continueAnswer(t.Context(), s.tokens.Encode("z", false))
	assert.ErrorContains(t, err, "unexpected:  z")

	// learned tokens lead through known ones; the model is asked only after their end
	_, d, s, _ = scripted(t, Options{}, "", map[string]string{"ab": "c"}, nil)
	ids := append(s.tokens.Encode("a", false), s.tokens.Encode("b", false)...)
	require.Len(t, ids, 2)
	d.small.recordChoices([]int32{ids[0], 9}, []int32{ids[0], ids[1]})
	all, err = d.small.continueAnswer(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, "abc", s.tokens.Decode(all[:3]))
	assert.Equal(t, []string{"ab"}, s.asked)

	// a continuation in a known text is read from the tree, not asked for
	_, d, s, _ = scripted(t, Options{}, "", map[string]string{"a": "b", "": "a"}, nil)
	_, err = d.small.continueAnswer(t.Context(), ids[:1])
	require.NoError(t, err)
	assert.Equal(t, 2, d.small.tokens, "with the end token")
	all, err = d.small.continueAnswer(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, "ab", s.tokens.Decode(all[:2]))
	assert.Equal(t, 3, d.small.tokens)

	// the limit holds for known tokens and for new ones
	for _, limit := range []int{3, 4} {
		tree := newChoiceTree(s, []int32{1, 2}, limit, s.tokens.IsEnd)
		s.lines[""] = "abcdef"
		for range 2 {
			all, err := tree.continueAnswer(t.Context(), nil)
			require.NoError(t, err)
			assert.Len(t, all, limit-2)
		}
	}
	mute := newChoiceTree(muteModel{s}, []int32{1}, 9, s.tokens.IsEnd)
	_, err = mute.continueAnswer(t.Context(), nil)
	assert.ErrorContains(t, err, "returned no token")
}

// muteModel generates no tokens.
type muteModel struct{ *script }

func (muteModel) generateTokens(context.Context, []int32, int, terms.Sampling, func(int32) bool) error {
	return nil
}
