// Package event has the JSON output of pilotfish run. The fields are a contract.
package event

import (
	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Token is one line of --json. Its fields are a contract.
type Token struct {
	Pos        int     `json:"pos"`
	ID         int32   `json:"id"`
	Text       string  `json:"text"`
	Kind       string  `json:"kind,omitempty"` // thought, or mark for what begins and ends one; absent: the answer
	Origin     string  `json:"origin"`
	Confidence float32 `json:"confidence"`
	Unverified bool    `json:"unverified,omitempty"` // with --verify: shown although no answer arrived in time
	MS         float64 `json:"ms"`                   // when it was shown, since the start of decoding with the prompt
	// from when it was drafted until it was shown
	CommitDelayMS float64 `json:"commit_delay_ms"`

	*Decision // with --explain only
	*LogProbs // with --logprobs only
}

// Decision has the values that the decision about a token depends on. (It is exported because encoding/json only sets
// such embedded fields.)
type Decision struct {
	Margin    float64 `json:"margin"`    // p₁ - p₂ of the small model's two best tokens
	Entropy   float64 `json:"entropy"`   // of its next token, in nats
	Threshold float64 `json:"threshold"` // the cloud is asked if the confidence is below
}

// LogProbs has the fields that --logprobs adds to a token. (It is exported because encoding/json only sets such
// embedded fields.)
type LogProbs struct {
	LogProb *float32     `json:"logprob"` // null if the cloud did not report it
	Top     []TopLogProb `json:"top"`     // the best tokens, best first
}

// TopLogProb is one of the most probable tokens.
type TopLogProb struct {
	ID      int32   `json:"id"`
	Text    string  `json:"text"`
	LogProb float32 `json:"logprob"`
}

// Summary is the last line of --json: the figures of the answer, and what describes it. Its fields are a contract.
type Summary struct {
	IDs             []int32  `json:"ids"`
	Text            string   `json:"text"`
	Stop            string   `json:"stop"`                // end, stop, length (-n), context (full), interrupted, failed
	Shortened       bool     `json:"shortened,omitempty"` // the value of --json-schema was cut to the room
	Ignored         []string `json:"ignored,omitempty"`   // paths of keywords of --json-schema that have no effect
	GeneratedTokens int      `json:"generated_tokens"`    // of the text, without an end token
	pilotfish.Routing
	Seed          *uint64 `json:"seed,omitempty"` // seed of the draws; only with a temperature
	LoadMS        float64 `json:"load_ms"`        // from opening the model file until a prompt could be accepted
	PromptTPS     float64 `json:"prompt_tps"`
	GenerationTPS float64 `json:"generation_tps"` // of the tokens after the first
	KVBytes       int64   `json:"kv_bytes"`       // of the KV cache of a full context
	// why the run failed or questions to the cloud had no answer; otherwise null
	Error *string `json:"error"`

	*Routed // with a cloud only
}

// Routed says how tokens were chosen. (It is exported because encoding/json only sets such embedded fields.)
type Routed struct {
	// how the gateway's model checks the tokens before a question: exact (all of them) or none; absent if there never
	// was a connection
	Audit     string   `json:"audit,omitempty"`
	Verify    *float64 `json:"verify,omitempty"`   // the margin in nats, with --verify
	Verified  bool     `json:"verified,omitempty"` // the large model verified the tokens before they were shown
	Policy    string   `json:"policy,omitempty"`
	Promise   string   `json:"promise,omitempty"`   // promise about the share: certified, or balance (over all answers)
	Budget    float64  `json:"budget,omitempty"`    // promised share
	Threshold *float64 `json:"threshold,omitempty"` // absent if it varies between tokens
	// what was proven about the threshold, and why that may not apply to this run
	Certificate *router.Certificate `json:"certificate,omitempty"`
	Doubts      []string            `json:"doubts,omitempty"`
	// with a budget: the sums of all answers before this one, and with it
	BalanceBefore *Balance      `json:"balance_before,omitempty"`
	Balance       *Balance      `json:"balance,omitempty"`
	Explain       []Explanation `json:"explain,omitempty"` // with --explain
}

// Balance is a balance in the output of --json. Its fields are a contract.
type Balance struct {
	router.Total
	Share     float64 `json:"share"`     // escalations per token
	Threshold float64 `json:"threshold"` // for the first token of an answer that starts with this balance
}

// Explanation explains a token and the decision about it. Its fields are a contract.
type Explanation struct {
	Pos        int     `json:"pos"`
	ID         int32   `json:"id"`
	Origin     string  `json:"origin"`
	Confidence float32 `json:"confidence"`
	Margin     float64 `json:"margin"`    // p₁ - p₂ of the small model
	Entropy    float64 `json:"entropy"`   // of its next token, in nats
	Threshold  float64 `json:"threshold"` // the cloud is asked if the confidence is below
	Local      int32   `json:"local"`     // the small model's token
	// stands, or turned if verification replaced the small model's token, or the outcome of the question: hit, miss,
	// known, late, failed, unasked
	Outcome string `json:"outcome"`
	Why     string `json:"why,omitempty"` // why verification asked the question: every, end
	// the large model's token if it is known, from an answer or from an audit of this position, and the logarithm of
	// its probability if that is known
	Cloud        *int32   `json:"cloud"`
	CloudLogProb *float32 `json:"cloud_logprob"`
}

// Result returns the outcome, and the reason for the question if it came from verification.
func (r *Explanation) Result() string {
	if r.Why == "" {
		return r.Outcome
	}
	return r.Outcome + ", " + r.Why
}

// Unverified is a line of --json with --show-unverified. Its fields are a contract.
type Unverified struct {
	Pos    int     `json:"pos"`    // position of the first token: the one after the last token event
	IDs    []int32 `json:"ids"`    // unverified tokens from there on; each event replaces the one before
	Text   string  `json:"text"`   // of these
	Turned int     `json:"turned"` // tokens of the event before that were replaced
}
