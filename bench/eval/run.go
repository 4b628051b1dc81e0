package eval

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Run is one way to answer all questions: a policy with a threshold or a budget, verification, and tokens ahead.
type Run struct {
	Policy    router.Policy
	Threshold *float64 // escalate below this confidence; nil: the policy's default
	Budget    float64  // share of tokens to escalate; 0: no budget
	Verify    *float64 // margin of verification in nats; nil: none
	Ahead     int      // tokens per answer of the large model; 0 means 1
}

// Name identifies a run: "never", "margin 0.8", "learned 7%", "margin 0.8 verified 0 ahead 8".
func (r Run) Name() string {
	name := string(r.Policy)
	switch {
	case r.Budget > 0:
		name += " " + strconv.FormatFloat(100*r.Budget, 'g', 12, 64) + "%"
	case r.Threshold != nil:
		name += " " + strconv.FormatFloat(*r.Threshold, 'g', -1, 64)
	}
	return name + r.dial().suffix()
}

// dial has the settings in which runs of a policy and threshold differ.
type dial struct {
	any      bool // for a curve: runs with and without verification
	verifies bool
	margin   float64
	ahead    int
}

func (r Run) dial() dial {
	d := dial{ahead: max(r.Ahead, 1)}
	if r.Verify != nil {
		d.verifies, d.margin = true, *r.Verify
	}
	return d
}

// suffix returns what a dial adds to the name of a run.
func (d dial) suffix() (s string) {
	if d.verifies {
		s = " verified " + strconv.FormatFloat(d.margin, 'f', -1, 64)
	}
	if d.ahead > 1 {
		s += fmt.Sprintf(" ahead %d", d.ahead)
	}
	return s
}

// plain reports whether a run uses only the router.
func (r Run) plain() bool { return r.dial() == dial{ahead: 1} }

// seedOf returns the seed of all random numbers for a question: they are independent for different questions, and equal
// for one question in different runs.
func seedOf(seed uint64, question string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, question)
	return h.Sum64()
}
