package collect

import (
	"context"
	"slices"
	"strings"
	"unicode"

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

	// RuleR2R is like the rule of R2R (arXiv 2505.21600): a difference counts only if it changes the course of the
	// text. If the models choose different tokens, the large one continues from both choices. With a grader it
	// continues to the end of the answers: escalate if only the one from its own choice is right, else keep. Without
	// one, it continues to the end of the sentence: escalate if the words differ, else keep. (In the paper a model with
	// 72 billion weights compares the sentences.) If the models agree: keep.
	RuleR2R = "r2r"

	// RuleConsequence marks the last position where one question makes the answer right. If the models choose different
	// tokens, the small one continues alone from both choices: escalate if the answer is right only from the large
	// model's choice, and no later position of the text that the small model chose is marked; spoil if it is right only
	// from the small one's; else keep. An earlier question is not worth its cost if a later one has the same effect.
	RuleConsequence = "consequence"
)

// Rules returns the names of all rules.
func Rules() []string { return []string{RuleDisagreement, RuleCiter, RuleR2R, RuleConsequence} }

// sentenceTokens is the maximum number of tokens from a choice to the end of its sentence.
const sentenceTokens = 64

// label fills in the labels of the positions of d. It begins with the last one: the text before a position is then
// still in the KV cache when a continuation starts there.
func (w *worker) label(ctx context.Context, d *draft, positions []trace.Position) error {
	small, large := make([]int32, len(positions)), make([]int32, len(positions))
	for i, p := range positions {
		small[i], large[i] = p.Small, p.Large
	}
	d.small.learn(d.answer, small)
	d.large.learn(d.answer, large)
	for i := range slices.Backward(positions) {
		for rule, name := range w.o.Labels {
			v, err := w.verdict(ctx, d, name, i, &positions[i])
			if err != nil {
				return err
			}
			positions[i].Labels[rule] = v
		}
	}
	return nil
}

// verdict returns the label of position i of the answer by a rule.
func (w *worker) verdict(ctx context.Context, d *draft, rule string, i int, p *trace.Position) (trace.Verdict, error) {
	agree := p.Small == p.Large
	switch {
	case rule == RuleCiter && w.o.Reference == Routed:
		if agree {
			return trace.Keep, nil
		}
		return w.each(ctx, d, i, p)
	case rule == RuleCiter && !d.about.Right:
		return trace.Unknown, nil
	case rule == RuleCiter && p.Small == p.Reference:
		return trace.Keep, nil
	case rule == RuleCiter && p.Large == p.Reference:
		return trace.Escalate, nil
	case rule == RuleCiter && !agree:
		return w.each(ctx, d, i, p)
	case agree:
		return trace.Keep, nil
	case rule == RuleConsequence && d.decided && p.Small == p.Reference:
		return trace.Keep, nil
	case rule == RuleConsequence:
		v, err := w.compare(ctx, d, i, p, d.small, d.small)
		d.decided = d.decided || v == trace.Escalate
		return v, err
	case rule == RuleR2R && d.question.Grade == nil:
		return w.sentences(ctx, d, i, p)
	case rule == RuleR2R:
		return w.answers(ctx, d, i, p)
	}
	return trace.Escalate, nil
}

// each compares the answers of the models when each continues alone from its own choice.
func (w *worker) each(ctx context.Context, d *draft, i int, p *trace.Position) (trace.Verdict, error) {
	return w.compare(ctx, d, i, p, d.small, d.large)
}

// answers compares the answers of the large model when it continues from both choices.
func (w *worker) answers(ctx context.Context, d *draft, i int, p *trace.Position) (trace.Verdict, error) {
	return w.compare(ctx, d, i, p, d.large, d.large)
}

// compare grades two answers: from the small model's choice, continued by the model keep, and from the large model's,
// continued by the model ask.
func (w *worker) compare(
	ctx context.Context, d *draft, i int, p *trace.Position, keep, ask *tree,
) (trace.Verdict, error) {
	kept, err := keep.goOn(ctx, variant(d.answer[:i], p.Small), nil)
	if err != nil {
		return trace.Unknown, err
	}
	asked, err := ask.goOn(ctx, variant(d.answer[:i], p.Large), nil)
	if err != nil {
		return trace.Unknown, err
	}
	askedRight, err := w.right(ctx, d, w.text(asked))
	if err != nil {
		return trace.Unknown, err
	}
	keptRight, err := w.right(ctx, d, w.text(kept))
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

// variant returns an answer up to a position, with another token there.
func variant(before []int32, id int32) []int32 {
	return append(append(make([]int32, 0, len(before)+1), before...), id)
}

// sentences compares the words up to the end of the sentence when the large model continues from both choices.
func (w *worker) sentences(ctx context.Context, d *draft, i int, p *trace.Position) (trace.Verdict, error) {
	ended := func(answer []int32) bool {
		return len(answer)-i >= sentenceTokens || endsSentence(w.tokens.Decode(answer[len(answer)-1:]))
	}
	var said [2][]string
	for k, id := range []int32{p.Small, p.Large} {
		answer, err := d.large.goOn(ctx, variant(d.answer[:i], id), ended)
		if err != nil {
			return trace.Unknown, err
		}
		said[k] = words(w.text(answer))
	}
	if slices.Equal(said[0], said[1]) {
		return trace.Keep, nil
	}
	return trace.Escalate, nil
}

// endsSentence reports whether a token ends a sentence: with a full stop, an exclamation or question mark, or a line
// break, and optional spaces after it. The full stops of numbers and abbreviations count too.
func endsSentence(token string) bool {
	if strings.ContainsRune(token, '\n') {
		return true
	}
	token = strings.TrimRight(token, " \t")
	return token != "" && strings.ContainsAny(token[len(token)-1:], ".!?")
}

// words returns the words of a text in lower case. It drops all characters that are neither letters nor digits.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}
