package eval

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Run is one way to answer all questions: a policy with a threshold or a budget, and verification.
type Run struct {
	Policy    router.Policy
	Threshold *float64 // escalate below this confidence; nil: the policy's default
	Budget    float64  // share of tokens to escalate; 0: no budget
	Verify    *float64 // margin of verification in nats; nil: none
}

// Name identifies a run: "never", "margin 0.8", "learned 7%", "margin 0.8 verified 0".
func (r Run) Name() string {
	name := string(r.Policy)
	switch {
	case r.Budget > 0:
		name += " " + strconv.FormatFloat(100*r.Budget, 'g', 12, 64) + "%"
	case r.Threshold != nil:
		name += " " + strconv.FormatFloat(*r.Threshold, 'g', -1, 64)
	}
	if r.Verify != nil {
		name += " verified " + strconv.FormatFloat(*r.Verify, 'f', -1, 64)
	}
	return name
}

// ParseRun is the inverse of [Run.Name].
func ParseRun(name string) (r Run, err error) {
	words := strings.Fields(name)
	number := func(word, unit string) (x float64) {
		if err == nil {
			x, err = strconv.ParseFloat(strings.TrimSuffix(word, unit), 64)
		}
		return x
	}
	if n := len(words); n > 2 && words[n-2] == "verified" {
		r.Verify, words = new(number(words[n-1], "")), words[:n-2]
	}
	if len(words) == 2 && strings.HasSuffix(words[1], "%") {
		r.Budget, words = number(words[1], "%")/100, words[:1]
	} else if len(words) == 2 {
		r.Threshold, words = new(number(words[1], "")), words[:1]
	}
	if err == nil && len(words) == 1 {
		r.Policy, err = ParsePolicy(words[0])
	}
	if err != nil || len(words) != 1 || r.Name() != name {
		return r, fmt.Errorf("%q is not the name of a run", name)
	}
	return r, nil
}

// onlyAsks reports whether a run only asks: the large model does not read every token.
func (r Run) onlyAsks() bool { return r.Verify == nil && !r.Policy.Verifies() }

// questionSeed returns the seed of all random numbers for a question: they are independent for different questions, and
// equal for one question in different runs.
func questionSeed(seed uint64, question string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, question)
	return h.Sum64()
}
