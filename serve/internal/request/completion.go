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
	f := parseBody(body)
	r.None = matchesValue(f.all["max_tokens"], "0")
	unlimited := matchesValue(f.all["max_tokens"], "-1")
	f.parseResponseFormat(&r.Request)
	f.parseCommonFields(&r.Request, d)
	if r.Settings.MaxTokens == 0 && !unlimited {
		r.Settings.MaxTokens = completionTokens
	}
	if f.parseInt("logprobs", 0, maxTopText, &r.Settings.Top) {
		r.Settings.LogProbs = true
	}
	f.parseBool("echo", &r.Echo)
	if best := r.N; f.parseInt("best_of", 0, maxChoices, &best) && best != r.N && best > 0 {
		f.failField("best_of", "answers are not sorted here: leave it out, and take n")
	}
	f.checkUnsupported("add_special_tokens", unsupported{values: "true", alters: true})
	f.parsePrompts(r)
	if f.parseString("suffix", &r.Suffix); r.Suffix != "" && (r.Echo || r.IDs != nil) {
		f.failField("suffix", "a gap is in a text: leave out echo, and give texts as prompt")
	}
	if n := (len(r.Texts) + len(r.IDs)) * r.N; n > maxAnswers {
		f.failField("prompt", "%d answers are too many: ask for at most %d in one request", n, maxAnswers)
	}
	return r, f.finishParsing()
}

// parsePrompts parses a text, a list of texts, ids, or a list of lists of ids.
func (f *fields) parsePrompts(r *Completion) {
	raw, ok := f.takeField("prompt")
	if !ok {
		f.failMissing("prompt", "give a text to go on with")
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
		f.failField("prompt", "give a string, a list of strings, a list of token ids, or a list of such lists; "+
			"none of them empty")
	}
	for _, list := range lists {
		if len(list) == 0 {
			f.failField("prompt", "a list of token ids is empty: give at least one")
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
