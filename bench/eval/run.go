package eval

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Run is one way to answer all questions: a policy with a threshold or a budget.
type Run struct {
	Policy    router.Policy
	Threshold *float64 // escalate below this confidence; nil: as the policy has it
	Budget    float64  // share of tokens to escalate; 0: none is given
}

// Name tells a run from others: "never", "margin 0.8", "learned 7%".
func (r Run) Name() string {
	switch {
	case r.Budget > 0:
		return fmt.Sprintf("%s %s%%", r.Policy, strconv.FormatFloat(100*r.Budget, 'g', 12, 64))
	case r.Threshold != nil:
		return fmt.Sprintf("%s %s", r.Policy, strconv.FormatFloat(*r.Threshold, 'g', -1, 64))
	}
	return string(r.Policy)
}

// router makes the router of a run. Where chance decides it begins with seed.
func (r Run) router(seed uint64, net *router.Net) (*router.Router, error) {
	return router.New(router.Options{
		Policy: r.Policy, Threshold: r.Threshold, Budget: r.Budget, Seed: seed, Net: net,
	})
}

// seedOf is the seed of all that chance decides about a question: the same positions of two answers have nothing in
// common, and those of one question in two runs have the same draws.
func seedOf(seed uint64, question string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, question)
	return h.Sum64()
}
