package request

import (
	"encoding/json"
	"strconv"
)

// completionTokens is the default length of a completion, as in OpenAI's API.
const completionTokens = 16

// Completion is a request to continue texts.
type Completion struct {
	Request
	Texts []string  // prompts; nil if they are given as ids
	IDs   [][]int32 // prompts
	Echo  bool
	None  bool // generate nothing: max_tokens is 0

	Suffix string // follows the answer; "": none
}

// ReadCompletion parses a request.
func ReadCompletion(body []byte, d Defaults) (*Completion, *Error) {
	r := new(Completion)
	f := parseBody(body, d)
	r.None = means(f.all["max_tokens"], "0")
	unlimited := means(f.all["max_tokens"], "-1")
	f.responseFormat(&r.Request)
	f.common(&r.Request, d)
	if r.Settings.MaxTokens == 0 && !unlimited {
		r.Settings.MaxTokens = completionTokens
	}
	if f.count("logprobs", 0, maxTopText, &r.Settings.Top) {
		r.Settings.LogProbs = true
	}
	f.flag("echo", &r.Echo)
	if best := r.N; f.count("best_of", 0, maxChoices, &best) && best != r.N && best > 0 {
		f.fail("best_of", "answers are not sorted here: leave it out, and take n")
	}
	f.idle("add_special_tokens", idle{values: "true", alters: true})
	f.prompts(r)
	if f.text("suffix", &r.Suffix); r.Suffix != "" && (r.Echo || r.IDs != nil) {
		f.fail("suffix", "a gap is in a text: leave out echo, and give texts as prompt")
	}
	if n := (len(r.Texts) + len(r.IDs)) * r.N; n > maxAnswers {
		f.fail("prompt", "%d answers are too many: ask for at most %d in one request", n, maxAnswers)
	}
	return r, f.end()
}

// prompts parses a text, a list of texts, ids, or a list of lists of ids.
func (f *fields) prompts(r *Completion) {
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
		r.Texts = []string{text}
	case json.Unmarshal(raw, &r.Texts) == nil && len(r.Texts) > 0:
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		lists, r.Texts = [][]tokenID{ids}, nil
	case json.Unmarshal(raw, &lists) == nil && len(lists) > 0:
		r.Texts = nil
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
		r.IDs = append(r.IDs, prompt)
	}
}

// tokenID is the id of a token in a request. It refuses null, which encoding/json would read as 0.
type tokenID int32

func (t *tokenID) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 32)
	*t = tokenID(n)
	return err
}
