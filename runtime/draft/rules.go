package draft

// rules are the options of one text, and the decisions that depend on nothing but them and their arguments. All parts
// of a run share them. They change at two times: before the first token, when the cloud cannot verify as a [Dial]
// needs it, and after a check that fails, when no further ones are asked.
type rules struct {
	Options
	prompt int // its length
	limit  int // position after the last token that the text may have
}

func newRules(o Options, prompt int) *rules {
	most, _ := o.tokenLimit()
	return &rules{o, prompt, prompt + most}
}

// settleDial decides whether a dial verifies this text. The connection that tells is likely to be there once the prompt
// is computed. Where it is not, verification is tried.
func (o *rules) settleDial(c Cloud) {
	if o.Dial == nil {
		return
	}
	v, may := c.(Verifier)
	if o.Verify = may && v.CannotVerify(o.Sampling, o.Judge) == nil; !o.Verify {
		o.Dial, o.auto = nil, false
	}
}

func (o *rules) stopChecks() { o.auto, o.CheckEvery = false, 0 }
