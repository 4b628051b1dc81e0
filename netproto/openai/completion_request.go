package openai

import (
	"encoding/json"
	"strconv"
)

// completionTokens is the length of a completion where the request says nothing, as OpenAI has it.
const completionTokens = 16

// completionRequest is a request for what follows texts.
type completionRequest struct {
	request
	texts []string  // prompts; nil where they are given as ids
	ids   [][]int32 // prompts
	echo  bool
	none  bool // nothing is generated: max_tokens is 0

	suffix string // that follows the answer; "": no matter what
}

// parseCompletion reads a request.
func parseCompletion(body []byte, d Defaults) (*completionRequest, *Error) {
	r := new(completionRequest)
	r.settings.MaxTokens = completionTokens
	f := parseBody(body)
	f.common(&r.request, d)
	if r.none = means(f.all["max_tokens"], "0"); r.none {
		f.take("max_tokens")
	}
	f.integerMax("max_tokens", &r.request)
	f.responseFormat(&r.request)
	if f.count("logprobs", 0, maxTopText, &r.settings.Top) {
		r.settings.LogProbs = true
	}
	f.flag("echo", &r.echo)
	if best := r.n; f.count("best_of", 1, maxChoices, &best) && best != r.n {
		f.fail("best_of", "answers are not sorted here: leave it out, and take n")
	}
	f.idle("add_special_tokens", idle{values: "true"})
	f.prompts(r)
	if f.text("suffix", &r.suffix); r.suffix != "" && (r.echo || r.ids != nil) {
		f.fail("suffix", "a gap is in a text: leave out echo, and give texts as prompt")
	}
	if n := (len(r.texts) + len(r.ids)) * r.n; n > maxAnswers {
		f.fail("prompt", "%d answers are too many: ask for at most %d in one request", n, maxAnswers)
	}
	return r, f.end()
}

// prompts reads a text, a list of texts, ids, or a list of lists of ids.
func (f *fields) prompts(r *completionRequest) {
	raw, ok := f.take("prompt")
	if !ok {
		f.missing("prompt", "give a text to go on with")
		return
	}
	var text string
	var ids []tokenID
	var lists [][]tokenID
	switch {
	case json.Unmarshal(raw, &text) == nil:
		r.texts = []string{text}
	case json.Unmarshal(raw, &r.texts) == nil && len(r.texts) > 0:
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		lists, r.texts = [][]tokenID{ids}, nil
	case json.Unmarshal(raw, &lists) == nil && len(lists) > 0:
		r.texts = nil
	default:
		f.fail("prompt", "give a string, a list of strings, a list of token ids, or a list of such lists; "+
			"none of them empty")
	}
	for _, list := range lists {
		if len(list) == 0 {
			f.fail("prompt", "a list of token ids is empty: give at least one")
		}
		prompt := make([]int32, len(list))
		for i, id := range list {
			prompt[i] = int32(id)
		}
		r.ids = append(r.ids, prompt)
	}
}

// tokenID is the id of a token in a request. A null is none, which encoding/json would take for 0.
type tokenID int32

// UnmarshalJSON implements [json.Unmarshaler].
func (t *tokenID) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 32)
	*t = tokenID(n)
	return err
}
