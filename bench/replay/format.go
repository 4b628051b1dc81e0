package replay

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// A recording is JSON lines, compressed with zstd: a [Header], an [Answer] for each answer, and the number of answers,
// by which one sees that the file is whole.

// version is that of the format.
const version = 1

// Header is the first line of a recording: what all answers have in common.
type Header struct {
	Version   int           `json:"recording"`
	Modes     []string      `json:"modes"`                   // in the order in which they are reported
	Vocab     int           `json:"vocab"`                   // size of the vocabulary
	Context   int           `json:"context"`                 // tokens that the small model's memory holds
	Ends      []int32       `json:"ends"`                    // tokens that end a text
	MaxTokens int           `json:"max_tokens"`              // of an answer
	EdgeTPS   float64       `json:"edge_tps,omitempty"`      // pace of the small model, in calls per second; 0: none
	RowCost   float64       `json:"edge_row_cost,omitempty"` // share of that time that each further row takes on top
	RTT       time.Duration `json:"rtt_ns"`                  // of the link, as the flags had it
	Loss      float64       `json:"loss,omitempty"`          // of its packets, each way
	Traces    []string      `json:"traces,omitempty"`        // names of files
	Parallel  int           `json:"parallel,omitempty"`      // answers at the same time
	CloudPace time.Duration `json:"cloud_pace_ns"`           // least time of a token of the large model
	Router    string        `json:"router_hash,omitempty"`   // of the network that confidences are of; see [HashOf]
	Scores    bool          `json:"scores,omitempty"`        // findings have scores: there was a margin
	Run       result.Run    `json:"run"`                     // the measurement that was recorded
}

// Answer is what one answer was made of. Texts are nodes of a tree: node 0 is the prompt, and node i+1 is the text that
// goes on with Tokens[i] behind node Parents[i]. Times are of the computer's clock, in nanoseconds.
type Answer struct {
	Mode     string        `json:"mode"`
	Question int           `json:"question"`          // its number in the workload
	Take     int           `json:"take,omitempty"`    // how often this question had been answered in this mode before
	Device   int           `json:"device,omitempty"`  // that answered; the answers of one stand in their order
	WarmUp   bool          `json:"warm_up,omitempty"` // it does not count: the device learnt from it
	Prompt   []int32       `json:"prompt"`
	Tokens   []int32       `json:"tokens,omitempty"`
	Parents  []int32       `json:"parents,omitempty"`
	Heads    []Head        `json:"heads,omitempty"`   // those that no line before has with as many candidates
	Lead     time.Duration `json:"lead_ns,omitempty"` // until the prompt was evaluated
	// evaluating it; of the large model alone until its first token, less the round trip
	Prefill time.Duration `json:"prefill_ns,omitempty"`
	Tail    time.Duration `json:"tail_ns,omitempty"` // of the program by itself at the end, behind the last wait
	Took    time.Duration `json:"took_ns"`           // all of it
	Calls   []Call        `json:"calls,omitempty"`   // of the small model, in their order
	Asks    []Ask         `json:"asks,omitempty"`    // in the order in which they began
	Warms   []Warm        `json:"warms,omitempty"`   // alike
	IDs     []int32       `json:"ids"`               // the text shown, without an end token
	Ended   bool          `json:"ended,omitempty"`   // with an end token
	Graded  bool          `json:"graded,omitempty"`  // it is known whether it is right
	Correct bool          `json:"correct,omitempty"`

	texts []uint64         // hashes of the nodes
	calls map[uint64]*Call // by the hashes of their nodes
	asks  map[uint64]*Ask  // by the hash of their context; the first of each
}

// Head is what decoding needs of the head behind a node.
type Head struct {
	Node       int32     `json:"node"`
	IDs        []int32   `json:"ids"`    // the best tokens, best first
	Logits     []float32 `json:"logits"` // of these
	LogSumExp  float32   `json:"lse"`
	Entropy    float32   `json:"entropy"`              // nats
	Confidence *float32  `json:"confidence,omitempty"` // of the router whose hash the header has; nil: it was not asked
}

// Call is a forward call of the small model after the prompt.
type Call struct {
	Nodes []int32       `json:"nodes"`  // evaluated, in their order
	Own   time.Duration `json:"own_ns"` // of the program by itself before it, since something came that was waited for
	Took  time.Duration `json:"took_ns"`
	After time.Duration `json:"after_ns"` // of the program by itself behind it, until it waits or calls again
}

// Ask is a question to the large model and what came of it: a terms.Question and its terms.Answer in the form of the
// file, with when it was where.
type Ask struct {
	Node int32         `json:"node"`    // the context
	Sent time.Duration `json:"sent_ns"` // since the answer began
	// of the program by itself before it, since the last call or wait
	Lag       time.Duration `json:"lag_ns"`
	Took      time.Duration `json:"took_ns"`            // until the answer, or until it was given up
	GivenUp   bool          `json:"given_up,omitempty"` // no answer came before nobody wanted it any more
	Error     string        `json:"error,omitempty"`    // there is no answer for this reason
	From      int           `json:"from,omitempty"`     // position that the audit was to begin at; 0: none
	Verify    int           `json:"verify,omitempty"`   // the kind of audit, as package draft numbers them
	Token     int32         `json:"token"`              // the answer
	Top       []Candidate   `json:"top,omitempty"`      // the best tokens, where they were asked for
	Audited   int           `json:"audited,omitempty"`  // positions at the end of the context
	Sampled   int           `json:"sampled,omitempty"`  // the only one of these; 0: all
	Audit     []Finding     `json:"audit,omitempty"`
	Queue     time.Duration `json:"queue_ns,omitempty"`
	Cloud     time.Duration `json:"cloud_ns,omitempty"`
	BytesUp   int           `json:"bytes_up,omitempty"`
	BytesDown int           `json:"bytes_down,omitempty"`
	Prefilled int           `json:"prefilled,omitempty"`
	Wanted    int           `json:"wanted,omitempty"` // most tokens beyond the answer
	Ahead     []Later       `json:"ahead,omitempty"`
	// when the last of them had come, or nobody wanted more; since the ask began
	Until  time.Duration `json:"until_ns,omitempty"`
	Closed bool          `json:"closed,omitempty"` // the large model decoded no more
}

// answered reports whether there is an answer.
func (a *Ask) answered() bool { return !a.GivenUp && a.Error == "" }

// wire is what the way took of an answered ask.
func (a *Ask) wire() time.Duration { return max(0, a.Took-a.Queue-a.Cloud) }

// Candidate is a terms.Candidate in the form of the file.
type Candidate struct {
	ID      int32   `json:"id"`
	LogProb float32 `json:"log_prob"`
}

// Later is a token that came ahead.
type Later struct {
	Token int32         `json:"token"`
	At    time.Duration `json:"at_ns"` // since the ask began
}

// Finding is a terms.Finding in the form of the file, which has no infinities.
type Finding struct {
	Pos     int     `json:"pos"`
	Token   int32   `json:"token"`
	LogProb float32 `json:"log_prob,omitempty"`
	Score   float32 `json:"score,omitempty"` // of Token, with a margin
	// of the token that stands there; the least float32 for one that cannot be
	Stands float32 `json:"stands,omitempty"`
}

// Warm is text that was sent before a question.
type Warm struct {
	Tokens    int           `json:"tokens"`  // of the whole text
	Sent      time.Duration `json:"sent_ns"` // since the answer began
	Took      time.Duration `json:"took_ns"`
	BytesUp   int           `json:"bytes_up,omitempty"`
	BytesDown int           `json:"bytes_down,omitempty"`
	GivenUp   bool          `json:"given_up,omitempty"` // nobody wanted it any more
	Failed    bool          `json:"failed,omitempty"`   // for another reason
}

// done reports whether the text came to the large model.
func (w *Warm) done() bool { return !w.GivenUp && !w.Failed }

// trailer is the last line.
type trailer struct {
	End *struct {
		Answers int `json:"answers"`
	} `json:"end"`
}
