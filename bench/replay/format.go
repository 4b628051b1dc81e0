package replay

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/record"
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
	Router    string        `json:"router_hash,omitempty"`   // of the network of the confidences; see [router.Net.Hash]

	// Calibration holds the confidences from which a budget of the policy learned started: see [router.Options].
	Calibration []float32 `json:"calibration,omitempty"`

	Run record.Run `json:"run"` // the measurement that was recorded
}

// Answer has the inputs of one answer. Texts are nodes of a tree: node 0 is the prompt, and node i+1 is the text of
// node Parents[i] extended by Tokens[i]. Times are of the computer's clock, in nanoseconds.
type Answer struct {
	Mode     string  `json:"mode"`
	Question int     `json:"question"`         // its number in the workload
	Device   int     `json:"device,omitempty"` // of the answer; the answers of one device are in order
	Prompt   []int32 `json:"prompt"`
	Tokens   []int32 `json:"tokens,omitempty"`
	Parents  []int32 `json:"parents,omitempty"`
	Heads    []Head  `json:"heads,omitempty"` // without those that an earlier line has with as many candidates
	// evaluation of the prompt; for the large model alone the time until its first token, less the round trip
	Prefill time.Duration `json:"prefill_ns,omitempty"`
	Took    time.Duration `json:"took_ns"`           // total time
	Calls   []Call        `json:"calls,omitempty"`   // of the small model, in order
	Asks    []Ask         `json:"asks,omitempty"`    // those with an answer, in the order in which it came
	IDs     []int32       `json:"ids"`               // the text shown, without an end token
	Ended   bool          `json:"ended,omitempty"`   // with an end token
	Graded  bool          `json:"graded,omitempty"`  // the answer was graded
	Correct bool          `json:"correct,omitempty"` // only if it was

	texts []uint64 // of the nodes
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
	Rows int           `json:"rows"`
	Took time.Duration `json:"took_ns"`
}

// Ask is a question to the large model and its answer, or text that was sent early.
type Ask struct {
	Node      int32         `json:"node"`           // the context
	Warm      bool          `json:"warm,omitempty"` // text sent early: the fields below up to Ahead are 0
	Verify    int           `json:"verify,omitempty"`
	Token     int32         `json:"token"`
	Audited   int           `json:"audited,omitempty"` // positions at the end of the context
	Audit     []Finding     `json:"audit,omitempty"`
	Queue     time.Duration `json:"queue_ns,omitempty"`
	Cloud     time.Duration `json:"cloud_ns,omitempty"`
	Ahead     []Later       `json:"ahead,omitempty"`
	Took      time.Duration `json:"took_ns"`
	BytesUp   int           `json:"bytes_up,omitempty"`
	BytesDown int           `json:"bytes_down,omitempty"`
}

// Later is a token ahead.
type Later struct {
	Token int32         `json:"token"`
	At    time.Duration `json:"at_ns"` // since the ask began
}

// Finding is a terms.Finding with the difference of its scores, if it has them.
type Finding struct {
	Pos   int     `json:"pos"`
	Token int32   `json:"token"`
	Gap   float32 `json:"gap,omitempty"` // Score - Stands, at most the largest number
}

// trailer is the last line.
type trailer struct {
	End *struct {
		Answers int `json:"answers"`
	} `json:"end"`
}
