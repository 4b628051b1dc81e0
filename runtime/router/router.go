// Package router decides which tokens the large model is asked for. A policy gives, per position, the confidence in
// [0, 1] that the small model's token may stand; below a threshold the token is an escalation (She et al., arXiv
// 2504.07878; the learned policy is that of CITER, arXiv 2502.01976).
//
//	never     1                                              the small model alone
//	always    0                                              the large model alone
//	random    u(seed, position), uniform                     a baseline: the threshold is the share of escalations
//	margin    p₁ - p₂                                        probabilities of the two best tokens
//	entropy   exp(-H), H the entropy of the next token       one over how many equally likely tokens have that entropy
//	learned   sigmoid(f(h)), f linear with ReLU between      h: the hidden state after the final norm; see [Net]
//	verify    p(small's token) / p(large's own)              under the large model, which then reads every token: see
//	                                                         [Router.Margin]; as margin where it cannot verify
//	judge     sigmoid(f(h, h')), h and h' the large          as verify, but a [Judge] beside the large model says if
//	          model's states around the small one's token    the small one's token may stand
//
// With a budget the threshold follows a [Balance] of all answers. A decision is a function of the balance before the
// answer and of the path, that is of the tokens before it and the decisions about them: decoding makes the same
// decisions with and without drafting.
package router

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Policy is the name of a rule.
type Policy string

// The policies.
const (
	Never   Policy = "never"
	Always  Policy = "always"
	Random  Policy = "random"
	Margin  Policy = "margin"
	Entropy Policy = "entropy"
	Learned Policy = "learned"
	Verify  Policy = "verify"
	Judged  Policy = "judge"
)

// Policies returns all policies in the order in which they are listed to users.
func Policies() []Policy {
	return []Policy{Never, Always, Random, Margin, Entropy, Learned, Verify, Judged}
}

// Verifies reports whether the large model reads every token with the policy, and replaces some.
func (p Policy) Verifies() bool { return p == Verify || p == Judged }

// ParsePolicy returns the policy of that name.
func ParsePolicy(name string) (Policy, error) {
	if p := Policy(name); slices.Contains(Policies(), p) {
		return p, nil
	}
	names := make([]string, len(Policies()))
	for i, p := range Policies() {
		names[i] = string(p)
	}
	return "", fmt.Errorf("policy %q: choose one of %s", name, strings.Join(names, ", "))
}

// DefaultThreshold returns the default of the confidence below which a policy escalates.
func (p Policy) DefaultThreshold() float64 {
	switch p {
	case Margin, Verify, Judged:
		return 0.8
	case Entropy:
		return 0.7
	case Random:
		return 0.05
	}
	return 0.5
}

// Options say how to decide. The zero value never escalates.
type Options struct {
	Policy Policy // "" means never
	// Threshold is the confidence below which to escalate, 0 (never) to 1; nil means [Policy.DefaultThreshold]. That of
	// the policy verify is e^-M for a margin of M nats, that of the policy judge its probability.
	Threshold *float64
	// Budget is the share of tokens to escalate over all answers, in (0, 1]: the threshold follows a balance. With 0
	// the threshold is fixed. It excludes Threshold.
	Budget  float64
	Balance *Balance // of the budget: shared, and changed by [Router.Add]; nil: a new one
	// Calibration holds the expected confidences of the policy in ascending order, as [Calibration] returns them: a
	// budget's thresholds start from them. nil: values measured with one small model, or uniform ones.
	Calibration []float32
	// Fallback is the budget of the policy verify that takes over from a Threshold while the confidences that were seen
	// last, which are in Balance, are unlike Calibration: see [Router.Unlike]. Where the large model cannot verify, a
	// threshold follows Balance. 0: nothing takes over. The confidences of the policies verify and judge are those of
	// margin here.
	Fallback float64
	Seed     uint64 // of the random policy
	Net      *Net   // of the learned policy
	Judge    string // [Judge.Fingerprint] of the judge that the large model must have; of the policy judge
}

// Bound returns the budget that the balance keeps, of questions or of a fallback; 0: there is none.
func (o Options) Bound() float64 { return max(o.Budget, o.Fallback) }

// Validate reports a value that is out of range.
func (o Options) Validate() error {
	if o.Policy != "" {
		if _, err := ParsePolicy(string(o.Policy)); err != nil {
			return err
		}
	}
	switch {
	case o.Threshold != nil && !(*o.Threshold >= 0 && *o.Threshold <= 1):
		return fmt.Errorf("threshold: %v is not within 0 to 1", *o.Threshold)
	case !(o.Budget >= 0 && o.Budget <= 1):
		return fmt.Errorf("budget: %v is not within 0 to 1", o.Budget)
	case o.Policy == Learned && o.Net == nil:
		return errors.New("policy learned: no router was given")
	case o.Policy.Verifies() && o.Budget == 0 && o.Threshold == nil:
		return fmt.Errorf("policy %s: it has no default threshold: give one, or a budget", o.Policy)
	case o.Policy == Judged && o.Judge == "":
		return errors.New("policy judge: no judge was given")
	case o.Threshold != nil && o.Budget != 0:
		return errors.New("a threshold and a budget exclude each other: leave one of them out")
	case o.Balance != nil && o.Bound() == 0:
		return errors.New("balance: there is no budget: give one, or leave the balance out")
	case !(o.Fallback >= 0 && o.Fallback <= 1):
		return fmt.Errorf("fallback: %v is not within 0 to 1", o.Fallback)
	case o.Fallback > 0 && (o.Threshold == nil || len(o.Calibration) == 0):
		return errors.New("fallback: it takes a threshold and a calibration")
	}
	if err := validateCalibration(o.Calibration); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	return nil
}

// Router decides by one policy. It has no state between decisions and may be used for many texts at once; with a budget
// it holds their balance.
type Router struct {
	o     Options
	fixed float64      // threshold without a budget
	prior []float32    // sample of confidences from before the first answer, with a budget
	from  *budgetStart // state before the answer, with a budget
	// the same, for an answer that is verified; nil: the margin is that of the threshold
	verified *account
	unlike   bool           // see Unlike
	on       backend.Router // the network on a device that evaluates it, or nil
}

// New makes a router.
func New(o Options) (*Router, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Policy == "" {
		o.Policy = Never
	}
	r := &Router{o: o, fixed: o.Policy.DefaultThreshold()}
	if o.Threshold != nil {
		r.fixed = *o.Threshold
	}
	if o.Bound() == 0 || o.Policy == Never || o.Policy == Always {
		return r, nil
	}
	if r.o.Balance == nil {
		r.o.Balance = new(Balance)
	}
	if err := r.o.Balance.adoptBudget(o.Bound()); err != nil {
		return nil, err
	}
	r.prior = priorConfidences(o.Policy, o.Calibration)
	return r.Begin(), nil
}

// Begin returns the router for one answer: its decisions start from the balance at the time of the call. Other answers
// do not change them. A router without Begin decides from the balance at the call of [New]. Without a budget Begin
// returns r.
func (r *Router) Begin() *Router {
	if r.prior == nil {
		return r
	}
	begun := *r
	s := r.o.Balance.copyState()
	begun.from = newBudgetStart(s, r.prior)
	begun.verified = newAccount(s)
	begun.unlike = r.o.Fallback > 0 && distributionsDiffer(s.Confidences, r.o.Calibration)
	if r.o.Fallback > 0 && !begun.unlike {
		begun.verified = nil
		if !r.o.Policy.Verifies() { // where the large model cannot verify, the threshold says nothing
			begun.from = nil
		}
	}
	return &begun
}

// Spent returns what an answer spends, from the confidences of its decisions, in the order of the text, and the number
// of tokens shown. r must be the router that the answer was begun with. Without a budget Spent returns the zero value.
func (r *Router) Spent(confidences []float32, tokens int) Answer {
	if r.prior == nil {
		return Answer{}
	}
	a, c := Answer{Tokens: tokens, Confidences: confidences}, pathCount{}
	for _, confidence := range confidences {
		escalated := float64(confidence) < r.thresholdAfter(c)
		if c = c.addDecision(escalated); escalated {
			a.Escalations++
		}
	}
	return a
}

// Add adds an answer to the balance. Without a budget it does nothing.
func (r *Router) Add(a Answer) {
	if r.prior != nil {
		r.o.Balance.Add(a)
	}
}

// Balance returns the balance of the budget; nil without one.
func (r *Router) Balance() *Balance {
	if r.prior == nil {
		return nil
	}
	return r.o.Balance
}

// Verifies reports whether the policy verifies, or verify has taken over.
func (r *Router) Verifies() bool { return r.o.Policy.Verifies() || r.unlike }

// Judge returns the fingerprint of the judge that decides this answer; "" for none.
func (r *Router) Judge() string {
	if r.unlike {
		return ""
	}
	return r.o.Judge
}

// Unlike reports whether this answer begins while the confidences of the last ones, all together, are unlike those of
// the calibration, so that a certificate says nothing about them: see [distributionsDiffer].
func (r *Router) Unlike() bool { return r.unlike }

func (r *Router) usesNetwork() bool { return r.o.Policy == Learned }

// On returns the router for heads of device d. If d evaluates routers itself, the learned policy asks d for the
// confidence and not for the hidden state. A network that does not fit on d is evaluated on the host.
func (r *Router) On(d backend.Device) *Router {
	there, ok := d.(backend.RouterDevice)
	if !ok || !r.usesNetwork() {
		return r
	}
	layers := make([]backend.RouterLayer, len(r.o.Net.Layers))
	for i, l := range r.o.Net.Layers {
		layers[i] = backend.RouterLayer(l)
	}
	on, err := there.LoadRouter(layers, r.o.Net.HeadFeatures)
	if err != nil {
		return r
	}
	with := *r
	with.on = on
	return &with
}

// Fits returns an error if the router cannot decide for a model with hidden states of width dim.
func (r *Router) Fits(dim int) error {
	if !r.usesNetwork() || r.o.Net.Dim() == dim {
		return nil
	}
	return fmt.Errorf("the router takes hidden states of width %d, those of the model are %d wide: "+
		"it was trained for another model", r.o.Net.Dim(), dim)
}

// Asks reports whether the router may escalate at all: not with the policy never, nor with a threshold that stays 0.
func (r *Router) Asks() bool {
	switch r.o.Policy {
	case Never:
		return false
	case Always:
		return true
	}
	return r.o.Budget > 0 || r.fixed > 0
}

// Want adds to w what the policy needs of each head.
func (r *Router) Want(w backend.Want) backend.Want {
	switch {
	case r.usesNetwork():
		w.Router, w.Hidden = r.on, w.Hidden || r.on == nil
	case r.o.Policy == Margin, r.Verifies():
		w.K = max(w.K, 2)
	}
	w.K = max(w.K, 1)
	return w
}

// Decide returns the confidence that the small model's token at pos, which follows head, may stand, and whether to ask
// the cloud. path is the result next of the decision before it, 0 at the start of a text.
func (r *Router) Decide(path uint64, pos int, head *backend.Output) (confidence float32, escalate bool, next uint64) {
	confidence = r.Confidence(pos, head)
	switch r.o.Policy {
	case Never:
		return confidence, false, path
	case Always:
		return confidence, true, path
	}
	count := unpackPath(path)
	escalate = float64(confidence) < r.thresholdAfter(count)
	return confidence, escalate, count.addDecision(escalate).packPath()
}

// Explain returns the inputs of Decide's decision for the same arguments: the margin and the entropy in nats of the
// small model's next token, and the threshold. The margin is correct if the head has its two best tokens. It is for
// display; calling it after Decide changes nothing.
func (r *Router) Explain(path uint64, pos int, head *backend.Output) (gap, entropy, threshold float64) {
	gap, entropy = float64(headMargin(head)), float64(head.Entropy)
	switch r.o.Policy {
	case Never:
		return gap, entropy, 0
	case Always:
		return gap, entropy, 1
	}
	return gap, entropy, r.thresholdAfter(unpackPath(path))
}

// thresholdAfter returns the confidence below which to escalate the token after a path. A judge's says nothing of
// margins: where the large model has not this judge, it is that of the policy verify with its usual margin.
func (r *Router) thresholdAfter(c pathCount) float64 {
	switch {
	case r.from != nil:
		return r.from.thresholdAfter(c)
	case r.o.Policy == Judged:
		return math.Exp(-preferred)
	}
	return r.fixed
}

// Threshold returns the confidence below which the first token of an answer is escalated: with a budget, from the
// balance at [Router.Begin].
func (r *Router) Threshold() float64 { return r.thresholdAfter(pathCount{}) }

// Confidence returns the policy's confidence, in [0, 1].
func (r *Router) Confidence(pos int, head *backend.Output) float32 {
	switch {
	case r.usesNetwork() && r.on != nil:
		return head.Confidence
	case r.usesNetwork():
		return r.o.Net.Confidence(head)
	}
	switch r.o.Policy {
	case Always:
		return 0
	case Random:
		return uniformDraw(r.o.Seed, uint64(pos))
	case Margin, Verify, Judged:
		return headMargin(head)
	case Entropy:
		return headCertainty(head)
	}
	return 1
}

// headMargin returns p₁ - p₂ of the two best tokens; p₁ if there is only one.
func headMargin(head *backend.Output) float32 {
	p := func(i int) float64 {
		if i >= len(head.Top) {
			return 0
		}
		return math.Exp(float64(head.Top[i].Logit) - float64(head.LogSumExp))
	}
	return clampUnit(p(0) - p(1))
}

// Certainty returns exp(-H) of an entropy H in nats, in [0, 1]: the input of the policy entropy and of networks with
// HeadFeatures.
func Certainty(entropy float32) float32 { return clampUnit(math.Exp(-float64(entropy))) }

func headCertainty(head *backend.Output) float32 { return Certainty(head.Entropy) }

// clampUnit limits x to [0, 1], which rounding may exceed. NaN gives 0.
func clampUnit(x float64) float32 {
	if !(x >= 0) {
		return 0
	}
	return float32(min(x, 1))
}

func uniformDraw(seed, pos uint64) float32 { return float32(Draw(seed, pos)>>40) / (1 << 24) }

// Draw returns a pseudorandom number, a pure function of its arguments: the output function of SplitMix64 (Steele, Lea
// and Flood, OOPSLA 2014) over both.
func Draw(seed, n uint64) uint64 { return splitMix64(splitMix64(seed) + n) }

func splitMix64(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
