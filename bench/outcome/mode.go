// Package outcome defines the modes of answering a text, and reports the results of answers in each mode: how many are
// right, how long they took, and the use of network, machine and large model. It runs no models itself.
package outcome

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Mode is one way to get an answer.
type Mode struct {
	Name      string
	Kind      kind
	pipelined bool    // drafting continues while answers are under way
	branches  int     // branches drafted per open question; 0: the default of the options
	Margin    float64 // of verified, in nats; of judged, the negative logarithm of the probability
	Judged    bool    // by the large model's judge
	every     int     // of speculative: tokens drafted per verification
}

type kind int

const (
	local       kind = iota // the small model alone
	Cloud                   // the large model alone, its text streamed
	Paper                   // serial routing as by She et al.: HTTP, the whole text as JSON with each question
	Routed                  // over our protocol
	Verified                // the same, with verification of each token
	Speculative             // no router: verification of every few tokens
	Reference               // the large model alone, asked directly: not a mode for users
)

// maxDrafted is the maximum length of a draft in speculative decoding.
const maxDrafted = 64

// ModesHelp explains the names of modes to users.
const ModesHelp = `  local        the small model alone
  cloud        the large model alone, its text streamed
  paper        routing as in the paper: wait for each answer, over HTTP, sending the whole text each time
  serial       wait for each answer, over our protocol
  pipelined-N  keep drafting while answers are pending, from N guesses at each answer, or from as many as pay off
               (auto)
  verified     like pipelined with --branches guesses, but each answer also checks the tokens before it: where the large
               model would have chosen another one, that one is used. The text is the large model's own
  verified:M   like verified, but a token is accepted if the large model prefers its own by no more than M nats
  judged:P     like verified, but a token is accepted if the judge beside the large model (--router) gives it the
               probability P or more

For comparison there is ordinary speculative decoding over a network (Leviathan et al., arXiv 2211.17192, greedy), over
our protocol, without a router and without answers ahead:

  speculative-K  the small model drafts K tokens and waits; the large one says which are accepted and what follows
  overlapped-K   the same, but drafting continues meanwhile

cloud and paper are subject to the round trip of the link, but not to its losses or traces.`

// ParseMode returns the mode of a name: [ModesHelp] lists them.
func ParseMode(name string) (Mode, error) {
	switch name {
	case "local":
		return Mode{Name: name, Kind: local}, nil
	case "cloud":
		return Mode{Name: name, Kind: Cloud}, nil
	case "paper":
		return Mode{Name: name, Kind: Paper}, nil
	case "serial":
		return Mode{Name: name, Kind: Routed}, nil
	case "verified":
		return Mode{Name: name, Kind: Verified, pipelined: true}, nil
	}
	if m, found := strings.CutPrefix(name, "verified:"); found {
		margin, err := terms.ParseMargin(m)
		if err != nil {
			return Mode{}, fmt.Errorf("%.40q: %w", name, err)
		}
		return Mode{Name: name, Kind: Verified, pipelined: true, Margin: margin}, nil
	}
	if text, found := strings.CutPrefix(name, "judged:"); found {
		p, err := strconv.ParseFloat(text, 64)
		if err != nil || !(p > 0 && p <= 1) {
			return Mode{}, fmt.Errorf("%.40q: %.40q is not a probability above 0 and up to 1", name, text)
		}
		return Mode{Name: name, Kind: Verified, pipelined: true, Margin: -math.Log(p), Judged: true}, nil
	}
	if name == "pipelined-auto" {
		return Mode{Name: name, Kind: Routed, pipelined: true, branches: draft.AutoBranches}, nil
	}
	if n, ok := parseNumbered(name, "pipelined-"); ok {
		return Mode{Name: name, Kind: Routed, pipelined: true, branches: n}, nil
	}
	if n, ok := parseNumbered(name, "speculative-"); ok {
		return Mode{Name: name, Kind: Speculative, every: n}, nil
	}
	if n, ok := parseNumbered(name, "overlapped-"); ok {
		return Mode{Name: name, Kind: Speculative, pipelined: true, branches: 1, every: n}, nil
	}
	return Mode{}, fmt.Errorf("%.40q is not a mode: choose from local, cloud, paper, serial, pipelined-auto, "+
		"pipelined-1 to pipelined-64, verified, verified:M with a margin M in nats, judged:P, "+
		"speculative-1 to speculative-%d and overlapped-1 to overlapped-%d",
		name, maxDrafted, maxDrafted)
}

// ParseModes parses a list of modes separated by commas. A repeated mode is measured repeatedly.
func ParseModes(list string) (all []Mode, err error) {
	for name := range strings.SplitSeq(list, ",") {
		m, err := ParseMode(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// parseNumbered returns the number from 1 to 64 after a prefix of a name.
func parseNumbered(name, prefix string) (int, bool) {
	digits, found := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 1 && n <= maxDrafted
}

// LargeModel reports whether the mode uses the large model.
func (m Mode) LargeModel() bool { return m.Kind != local }

// Routes reports whether a router decides which tokens are asked for.
func (m Mode) Routes() bool {
	return m.Kind == Paper || m.Kind == Routed || m.Kind == Verified && !m.Judged
}

// Asks reports whether single tokens are requested, so that deadlines matter.
func (m Mode) Asks() bool { return m.Routes() || m.Verifies() }

// OverLink reports whether the emulated link carries our protocol. HTTP has a separate link, which only has a round
// trip.
func (m Mode) OverLink() bool { return m.Kind == Routed || m.Verifies() }

// Pipelined reports whether drafting continues while answers are under way.
func (m Mode) Pipelined() bool { return m.pipelined }

// Verifies reports whether the large model verifies each token.
func (m Mode) Verifies() bool { return m.Kind == Verified || m.Kind == Speculative }

// AsCloud reports whether the tokens must equal those of the large model alone.
func (m Mode) AsCloud() bool { return m.Verifies() && m.Margin == 0 && !m.Judged }

// Router makes the router of a device in a mode, from the options that all modes share; nil if the mode does not ask
// for single tokens. With a budget each router has a balance of its own.
func (m Mode) Router(o router.Options) (*router.Router, error) {
	switch {
	case m.Kind == local, m.Kind == Cloud, m.Kind == Reference:
		return nil, nil
	case m.Kind == Speculative, m.Judged:
		o = router.Options{Policy: router.Never}
	}
	o.Balance = nil
	return router.New(o)
}

// Draft returns the options of routed decoding in this mode, from those that all modes share.
func (m Mode) Draft(o draft.Options) draft.Options {
	o.Mode = draft.Serial
	if m.pipelined {
		o.Mode = draft.Pipelined
	}
	if m.branches != 0 {
		o.Branches = m.branches
	}
	if m.Kind != local && !m.OverLink() { // the paper's system has a forward pass for each token
		o.Lookup = -1
	}
	if m.Kind != Routed && m.Kind != Verified {
		o.Ahead = 0
	}
	if o.Verify, o.Margin = m.Verifies(), m.Margin; !m.Judged {
		o.Judge = ""
	}
	switch m.Kind {
	case Speculative:
		o.VerifyEvery = m.every
	case Verified:
	default:
		o.VerifyEvery = 0
	}
	return o
}
