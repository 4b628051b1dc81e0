package eval

import (
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Rule is a policy for comparison, for which nothing was trained: the large model is asked for the token that follows
// the words before a conclusion, such as "The answer is", and for no other. See [task.Concludes].
const Rule router.Policy = "rule"

// ParsePolicy returns the policy of that name, [Rule] included.
func ParsePolicy(name string) (router.Policy, error) {
	if name == string(Rule) {
		return Rule, nil
	}
	return router.ParsePolicy(name)
}

// rule decides by the policy [Rule], in serial decoding: the answerBuilder then has all tokens before the one in
// question.
type rule struct {
	builder *answerBuilder
	words   *tokenizer.Tokenizer
}

// Want implements [engine.Decider].
func (r rule) Want(w backend.Want) backend.Want {
	w.K = max(w.K, 1)
	return w
}

// Decide implements [engine.Decider].
func (r rule) Decide(path uint64, pos int, _ *backend.Output) (confidence float32, escalate bool, next uint64) {
	return 1, task.Concludes(r.words.Decode(r.builder.a.Tokens[:pos-r.builder.prompt])), path
}
