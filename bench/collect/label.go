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
	// RuleDisagreement says escalate where the two models choose different tokens, else keep.
	RuleDisagreement = "disagreement"

	// RuleCiter is the rule of CITER (arXiv 2502.01976), for a small model that was not fine-tuned as theirs. At a
	// position of a reference whose final answer is right: the small model's choice is the reference's token: keep;
	// else the large model's is: escalate; else each model goes on alone from its own choice to the end of the answer,
	// and the final answers are graded: escalate if only the large model's is right, else keep. Positions of other
	// references stay unknown. In a text that was decoded with a router no token is the right one: keep where the
	// models agree, else both go on alone.
	RuleCiter = "citer"

	// RuleR2R is like the rule of R2R (arXiv 2505.21600): a difference counts only if the text takes
	// another course. Where the models choose different tokens, the large one goes on from both. With a grader it goes
	// on to the end of the answers: escalate if only the one from its own choice is right, else keep. Without one, to
	// the end of the sentence: escalate if the words differ, else keep. (There a model of 72 billion weights compares
	// the sentences.) Elsewhere keep.
	RuleR2R = "r2r"

	// RuleConsequence marks the last place where one question makes the answer right. Where the models choose
	// different tokens, the small one goes on alone from both: escalate if the answer is right only from the large
	// model's choice, and no later place of the text that the small model chose is marked; spoil if it is right only
	// from the small one's; else keep. An earlier question is not worth its price where a later one does the same.
	RuleConsequence = "consequence"
)

// Rules are the names of all rules.
func Rules() []string { return []string{RuleDisagreement, RuleCiter, RuleR2R, RuleConsequence} }

// sentenceTokens is the most tokens of what follows a choice up to the end of its sentence.
const sentenceTokens = 64

// label fills in the labels of the positions of d. It begins with the last one: what goes on from a position then has
// all the text before it in memory.
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

// verdict is what a rule says of position i of the answer.
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

// each compares what the models answer when each goes on alone from its own choice.
func (w *worker) each(ctx context.Context, d *draft, i int, p *trace.Position) (trace.Verdict, error) {
	return w.compare(ctx, d, i, p, d.small, d.large)
}

// answers compares what the large model answers when it goes on from both choices.
func (w *worker) answers(ctx context.Context, d *draft, i int, p *trace.Position) (trace.Verdict, error) {
	return w.compare(ctx, d, i, p, d.large, d.large)
}

// compare grades two answers: from the small model's choice, continued by the model of keep, and from the large
// model's, continued by the model of ask.
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

// variant is an answer up to a position, with a token there.
func variant(before []int32, id int32) []int32 {
	return append(append(make([]int32, 0, len(before)+1), before...), id)
}

// sentences compares the words up to the end of the sentence when the large model goes on from both choices.
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

// endsSentence reports whether a token ends a sentence: with a full stop, a mark of exclamation or question, or a new
// line, and spaces after it. The full stop of a number or of an abbreviation does so too.
func endsSentence(token string) bool {
	if strings.ContainsRune(token, '\n') {
		return true
	}
	token = strings.TrimRight(token, " \t")
	return token != "" && strings.ContainsAny(token[len(token)-1:], ".!?")
}

// words are those of a text in lower case, without what is no letter and no digit.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}
