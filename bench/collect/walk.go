package collect

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// RuleMismatch is the rule of AutoJudge (arXiv 2504.20039) for judged texts. The text begins as the large model's
// greedy answer. At the earliest position where the small model chooses another token, that token is put there, and the
// large model finishes the answer. If it is still right, this is the text from now on, and the small model's token may
// stand; else the large model's token stays: escalate. Then comes the next such position. Answers of the large model
// that are wrong have no positions.
const RuleMismatch = "mismatch"

// walkAhead is how many tokens of the text the small model reads at a time to find a mismatch: most are 5 to 20 apart,
// and what is behind one that may stand is in vain.
const walkAhead = 24

// walkLimit is how many tokens may be generated for the positions of a text, as a multiple of the maximum length of an
// answer: 25 differences and 4,000 tokens are usual for GSM8K. An answer that is nearly endless in all its versions
// would otherwise take an hour, and the texts after it wait for it. Its further positions are left out.
const walkLimit = 12

// walkMismatches finds the positions of a judged text, with the states of the large model before and after the small
// model's token. d.answer is the large model's answer, and becomes the text.
func (w *worker) walkMismatches(ctx context.Context, d *pendingAnswer) (t trace.Text, err error) {
	t.Prompt = d.about
	generated, most := 0, cmp.Or(w.o.walkLimit, walkLimit*cmp.Or(w.o.MaxTokens, w.limit))
	for at := 0; d.about.Right && generated < most; {
		var p trace.Position
		p, at, err = w.nextMismatch(ctx, d, at)
		if err != nil || at == len(d.answer) {
			return t, err
		}
		if t.Hidden, err = w.readMismatch(ctx, d, at, &p, t.Hidden); err != nil {
			return t, err
		}
		other, err := d.large.continueAnswer(ctx, append(slices.Clone(d.answer[:at]), p.Small))
		if err != nil {
			return t, err
		}
		generated += len(other) - at
		right, err := w.gradeTokens(ctx, d, other)
		if err != nil {
			return t, err
		}
		if p.Labels[0] = trace.Escalate; right {
			p.Labels[0] = trace.Keep
			d.answer, p.Reference, p.ReferenceSmall = other, p.Small, p.SmallLogProb
		} else {
			p.ReferenceLarge = p.LargeLogProb
		}
		t.Positions = append(t.Positions, p)
		at++
	}
	return t, nil
}

// nextMismatch returns the first position from at on where the small model chooses another token; the length of the
// answer if there is none.
func (w *worker) nextMismatch(ctx context.Context, d *pendingAnswer, at int) (p trace.Position, found int, err error) {
	n := len(d.prompt)
	text := slices.Concat(d.prompt, d.answer)
	for found = at; found < len(d.answer); {
		end, differs := min(len(text), n+found+walkAhead), false
		err := w.edge.Read(ctx, text[:end], n+found, 0, func(s engine.Seen) error {
			if differs || s.Choice == text[s.Pos] {
				return nil
			}
			differs, found = true, s.Pos-n
			p = trace.Position{Pos: int32(s.Pos), Reference: text[s.Pos], Large: text[s.Pos], Small: s.Choice,
				SmallLogProb: s.LogProb, ReferenceSmall: s.Given}
			return nil
		})
		if err != nil || differs {
			return p, found, err
		}
		found = end - n
	}
	return p, found, nil
}

// readMismatch makes the large model read the small model's token at a mismatch. It appends the states before and after
// it to hidden, and fills in what the large model thinks of it: how probable it is beside its own choice, and the
// entropy.
func (w *worker) readMismatch(
	ctx context.Context, d *pendingAnswer, at int, p *trace.Position, hidden []uint16,
) ([]uint16, error) {
	text := slices.Concat(d.prompt, d.answer[:at], []int32{p.Small, p.Small}) // the last one stands for what follows
	err := w.largeSession.Read(ctx, text, int(p.Pos), 0, func(s engine.Seen) (err error) {
		if s.Pos == int(p.Pos) {
			p.Margin = float32(math.Exp(float64(min(s.Given-s.LogProb, 0))))
			p.Entropy, p.LargeLogProb, p.ReferenceLarge = s.Entropy, s.LogProb, s.Given
		}
		hidden, err = trace.AppendHalves(hidden, s.Hidden)
		return err
	})
	return hidden, err
}
