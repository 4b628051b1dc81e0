package replay

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// A recording is JSON lines, compressed with zstd: a [Header], an [Answer] for each answer, and the number of answers,
// which shows that the file is complete.

// version is the version of the format.
const version = 1

// Header is the first line of a recording: the common settings of all answers.
type Header struct {
	Version   int           `json:"recording"`
	Modes     []string      `json:"modes"`                   // in the order of reports
	Vocab     int           `json:"vocab"`                   // size of the vocabulary
	Context   int           `json:"context"`                 // size of the small model's KV cache in tokens
	Ends      []int32       `json:"ends"`                    // tokens that end a text
	MaxTokens int           `json:"max_tokens"`              // of an answer
	EdgeTPS   float64       `json:"edge_tps,omitempty"`      // pace of the small model, in passes per second; 0: none
	RowCost   float64       `json:"edge_row_cost,omitempty"` // time of each further row, as a share of a pass
	RTT       time.Duration `json:"rtt_ns"`                  // of the link, from the flags
	Loss      float64       `json:"loss,omitempty"`          // of its packets, each way
	Traces    []string      `json:"traces,omitempty"`        // names of files
	Parallel  int           `json:"parallel,omitempty"`      // concurrent answers
	CloudPace time.Duration `json:"cloud_pace_ns"`           // minimum time of a token of the large model
	Router    string        `json:"router_hash,omitempty"`   // of the network of the confidences; see [HashOf]

	// Calibration holds the confidences from which a budget of the policy learned started: see [router.Options].
	Calibration []float32 `json:"calibration,omitempty"`

	Run result.Run `json:"run"` // the measurement that was recorded
}

// Answer has the inputs of one answer. Texts are nodes of a tree: node 0 is the prompt, and node i+1 is the text of
// node Parents[i] extended by Tokens[i]. Times are of the computer's clock, in nanoseconds.
type Answer struct {
	Mode     string        `json:"mode"`
	Question int           `json:"question"`          // its number in the workload
	Device   int           `json:"device,omitempty"`  // of the answer; the answers of one device are in order
	WarmUp   bool          `json:"warm_up,omitempty"` // does not count: the device learned from it
	Prompt   []int32       `json:"prompt"`
	Tokens   []int32       `json:"tokens,omitempty"`
	Parents  []int32       `json:"parents,omitempty"`
	Heads    []Head        `json:"heads,omitempty"`   // without those that an earlier line has with as many candidates
	Lead     time.Duration `json:"lead_ns,omitempty"` // until the evaluation of the prompt
	// evaluation of the prompt; for the large model alone the time until its first token, less the round trip
	Prefill time.Duration `json:"prefill_ns,omitempty"`
	Tail    time.Duration `json:"tail_ns,omitempty"` // of the program itself at the end, after the last wait
	Took    time.Duration `json:"took_ns"`           // total time
	Calls   []Call        `json:"calls,omitempty"`   // of the small model, in order
	Asks    []Ask         `json:"asks,omitempty"`    // in the order in which they began
	Warms   []Warm        `json:"warms,omitempty"`   // in the order in which they began
	IDs     []int32       `json:"ids"`               // the text shown, without an end token
	Ended   bool          `json:"ended,omitempty"`   // with an end token
	Graded  bool          `json:"graded,omitempty"`  // the answer was graded
	Correct bool          `json:"correct,omitempty"`

	texts []uint64         // of the nodes
	calls map[uint64]*Call // by the hashes of their nodes
	asks  map[uint64]*Ask  // by the hash of their context; the first of each
}

// Head has what decoding needs of the head after a node.
type Head struct {
	Node       int32     `json:"node"`
	IDs        []int32   `json:"ids"`    // the best tokens, best first
	Logits     []float32 `json:"logits"` // of these
	LogSumExp  float32   `json:"lse"`
	Entropy    float32   `json:"entropy"`              // nats
	Confidence *float32  `json:"confidence,omitempty"` // of the router with the header's hash; nil: it was not asked
}

// Call is a forward pass of the small model after the prompt.
type Call struct {
	Nodes []int32       `json:"nodes"`  // evaluated, in order
	Own   time.Duration `json:"own_ns"` // of the program itself before it, since the end of the last wait
	Took  time.Duration `json:"took_ns"`
	After time.Duration `json:"after_ns"` // of the program itself after it, until it waits or calls again
}

// Ask is a question to the large model and its result: a terms.Question and its terms.Answer in the format of the file,
// with their times.
type Ask struct {
	Node int32 `json:"node"` // the context
	// of the program itself before it, since the last call or wait
	Lag       time.Duration `json:"lag_ns"`
	Took      time.Duration `json:"took_ns"`            // until the answer, or until it was abandoned
	GivenUp   bool          `json:"given_up,omitempty"` // it was abandoned before an answer came
	Error     string        `json:"error,omitempty"`    // why there is no answer
	From      int           `json:"from,omitempty"`     // first position of the requested audit; 0: none
	Verify    int           `json:"verify,omitempty"`   // the kind of audit, as numbered by package draft
	Token     int32         `json:"token"`              // the answer
	Top       []Candidate   `json:"top,omitempty"`      // the best tokens, if they were requested
	Audited   int           `json:"audited,omitempty"`  // positions at the end of the context
	Audit     []Finding     `json:"audit,omitempty"`
	Queue     time.Duration `json:"queue_ns,omitempty"`
	Cloud     time.Duration `json:"cloud_ns,omitempty"`
	BytesUp   int           `json:"bytes_up,omitempty"`
	BytesDown int           `json:"bytes_down,omitempty"`
	Prefilled int           `json:"prefilled,omitempty"`
	Wanted    int           `json:"wanted,omitempty"` // maximum number of tokens ahead
	Ahead     []Later       `json:"ahead,omitempty"`
	// when the last of them had arrived, or no more were wanted; since the ask began
	Until  time.Duration `json:"until_ns,omitempty"`
	Closed bool          `json:"closed,omitempty"` // the large model decoded no more
}

// answered reports whether there is an answer.
func (a *Ask) answered() bool { return !a.GivenUp && a.Error == "" }

// wire returns the time of an answered ask on the link.
func (a *Ask) wire() time.Duration { return max(0, a.Took-a.Queue-a.Cloud) }

// Candidate is a terms.Candidate in the format of the file.
type Candidate struct {
	ID      int32   `json:"id"`
	LogProb float32 `json:"log_prob"`
}

// Later is a token ahead.
type Later struct {
	Token int32         `json:"token"`
	At    time.Duration `json:"at_ns"` // since the ask began
}

// Finding is a terms.Finding in the format of the file, which has no infinities.
type Finding struct {
	Pos     int     `json:"pos"`
	Token   int32   `json:"token"`
	LogProb float32 `json:"log_prob,omitempty"`
}

// Warm is text that was sent before a question.
type Warm struct {
	Tokens    int           `json:"tokens"` // of the whole text
	Took      time.Duration `json:"took_ns"`
	BytesUp   int           `json:"bytes_up,omitempty"`
	BytesDown int           `json:"bytes_down,omitempty"`
	GivenUp   bool          `json:"given_up,omitempty"` // no longer wanted
	Failed    bool          `json:"failed,omitempty"`   // for another reason
}

// done reports whether the text arrived at the large model.
func (w *Warm) done() bool { return !w.GivenUp && !w.Failed }

// trailer is the last line.
type trailer struct {
	End *struct {
		Answers int `json:"answers"`
	} `json:"end"`
}
