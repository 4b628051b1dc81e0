package collect

import (
	"context"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// The label rules.
const (
	// RuleDisagreement: escalate if the two models choose different tokens, else keep.
	RuleDisagreement = "disagreement"

	// RuleCiter is the rule of CITER (arXiv 2502.01976), for a small model that was not fine-tuned as theirs. At a
	// position of a reference with a right final answer: if the small model chooses the reference's token: keep; else
	// if the large model does: escalate; else each model continues alone from its own choice to the end of the answer,
	// and the final answers are graded: escalate if only the large model's is right, else keep. Positions of other
	// references stay unknown. In a text that was decoded with a router no token counts as the right one: keep if the
	// models agree, else both continue alone.
	RuleCiter = "citer"

	// RuleConsequence marks the last position where one question makes the answer right. If the models choose different
	// tokens, the small one continues alone from both choices: escalate if the answer is right only from the large
	// model's choice, and no later position of the text that the small model chose is marked; spoil if it is right only
	// from the small one's; else keep. An earlier question is not worth its cost if a later one has the same effect.
	RuleConsequence = "consequence"
)

// labelPositions fills in the labels of the positions of d. It begins with the last one: the text before a position is
// then still in the KV cache when a continuation starts there.
func (w *worker) labelPositions(ctx context.Context, d *pendingAnswer, positions []trace.Position) error {
	small, large := make([]int32, len(positions)), make([]int32, len(positions))
	for i, p := range positions {
		small[i], large[i] = p.Small, p.Large
	}
	d.small.recordChoices(d.answer, small)
	d.large.recordChoices(d.answer, large)
	for i := range slices.Backward(positions) {
		for rule, name := range w.o.Labels {
			v, err := w.positionVerdict(ctx, d, name, i, &positions[i])
			if err != nil {
				return err
			}
			positions[i].Labels[rule] = v
		}
	}
	return nil
}

func (w *worker) positionVerdict(
	ctx context.Context, d *pendingAnswer, rule string, i int, p *trace.Position,
) (trace.Verdict, error) {
	agree := p.Small == p.Large
	switch {
	case rule == RuleCiter && w.o.Reference == Routed:
		if agree {
			return trace.Keep, nil
		}
		return w.compareContinuations(ctx, d, i, p, d.large)
	case rule == RuleCiter && !d.about.Right:
		return trace.Unknown, nil
	case rule == RuleCiter && p.Small == p.Reference:
		return trace.Keep, nil
	case rule == RuleCiter && p.Large == p.Reference:
		return trace.Escalate, nil
	case rule == RuleCiter && !agree:
		return w.compareContinuations(ctx, d, i, p, d.large)
	case agree:
		return trace.Keep, nil
	case rule == RuleConsequence && d.decided && p.Small == p.Reference:
		return trace.Keep, nil
	case rule == RuleConsequence:
		v, err := w.compareContinuations(ctx, d, i, p, d.small)
		d.decided = d.decided || v == trace.Escalate
		return v, err
	}
	return trace.Escalate, nil
}

// compareContinuations grades two answers: from the small model's choice, continued by the small model, and from the
// large model's, continued by the model of the tree ask.
func (w *worker) compareContinuations(
	ctx context.Context, d *pendingAnswer, i int, p *trace.Position, ask *choiceTree,
) (trace.Verdict, error) {
	kept, err := d.small.continueAnswer(ctx, slices.Concat(d.answer[:i], []int32{p.Small}))
	if err != nil {
		return trace.Unknown, err
	}
	asked, err := ask.continueAnswer(ctx, slices.Concat(d.answer[:i], []int32{p.Large}))
	if err != nil {
		return trace.Unknown, err
	}
	askedRight, err := w.gradeTokens(ctx, d, asked)
	if err != nil {
		return trace.Unknown, err
	}
	keptRight, err := w.gradeTokens(ctx, d, kept)
	switch {
	case err != nil:
		return trace.Unknown, err
	case askedRight && !keptRight:
		return trace.Escalate, nil
	case keptRight && !askedRight:
		return trace.Spoil, nil
	}
	return trace.Keep, nil
}
