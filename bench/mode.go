package bench

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Mode is one way to get an answer.
type Mode struct {
	Name     string
	kind     kind
	branches int
}

type kind int

const (
	local  kind = iota // the small model alone
	cloud              // the large model alone, its text streamed over HTTP
	paper              // serial routing as She et al. have it: HTTP, the whole text as JSON each time
	routed             // over our protocol
)

// ParseMode returns the mode of a name:
//
//	local        the small model alone
//	cloud        the large model alone, its text streamed over HTTP
//	paper        serial routing as in the paper: HTTP, the whole text as JSON with each question, no drafting
//	serial       serial routing over our protocol
//	pipelined-N  pipelined routing over our protocol with N branches, or with as many as are worth their price (auto)
func ParseMode(name string) (Mode, error) {
	switch name {
	case "local":
		return Mode{name, local, 0}, nil
	case "cloud":
		return Mode{name, cloud, 0}, nil
	case "paper":
		return Mode{name, paper, 0}, nil
	case "serial":
		return Mode{name, routed, 0}, nil
	}
	if n, found := strings.CutPrefix(name, "pipelined-"); found {
		if n == "auto" {
			return Mode{name, routed, draft.AutoBranches}, nil
		}
		if branches, err := strconv.Atoi(n); err == nil && branches >= 1 && branches <= 64 {
			return Mode{name, routed, branches}, nil
		}
	}
	return Mode{}, fmt.Errorf("%.40q is not a mode: choose from local, cloud, paper, serial, pipelined-auto and pipelined-1 to pipelined-64", name)
}

// SmallModel reports whether the small model takes part.
func (m Mode) SmallModel() bool { return m.kind != cloud }

// LargeModel reports whether the large model takes part.
func (m Mode) LargeModel() bool { return m.kind != local }

// Routes reports whether single tokens are asked for, so that a router decides and deadlines count.
func (m Mode) Routes() bool { return m.kind == paper || m.kind == routed }

// OverLink reports whether the emulated link carries our protocol. HTTP has a link of its own, with a round trip alone.
func (m Mode) OverLink() bool { return m.kind == routed }

// Pipelined reports whether drafting goes on while answers are under way.
func (m Mode) Pipelined() bool { return m.branches != 0 }

// LooksUp reports whether the small model may be given guesses from the text. The paper's system has a forward call for
// each token.
func (m Mode) LooksUp() bool { return m.kind == local || m.kind == routed }

// Draft returns the options of routed decoding in this mode, from those that all modes share.
func (m Mode) Draft(o draft.Options) draft.Options {
	o.Mode = draft.Serial
	if !m.LooksUp() {
		o.Lookup = -1
	}
	if m.Pipelined() {
		o.Mode, o.Branches = draft.Pipelined, m.branches
	}
	return o
}
