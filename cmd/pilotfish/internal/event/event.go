// Package event has what pilotfish run prints with --json. The fields are a contract.
package event

import (
	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Token is one line of --json. Its fields are a contract.
type Token struct {
	Pos        int     `json:"pos"`
	ID         int32   `json:"id"`
	Text       string  `json:"text"`
	Origin     string  `json:"origin"`
	Confidence float32 `json:"confidence"`
	Unverified bool    `json:"unverified,omitempty"` // with --verify: shown although no answer came in time
	MS         float64 `json:"ms"`                   // when it was shown, since decoding began, the prompt included
	// from when it was drafted until it was shown
	CommitDelayMS float64 `json:"commit_delay_ms"`

	*Decision // with --explain only
	*LogProbs // with --logprobs only
}

// Decision is what the decision about a token was made of. (It has a capital because encoding/json sets only such
// embedded fields.)
type Decision struct {
	Margin    float64 `json:"margin"`    // p₁ - p₂ of the small model's two best tokens
	Entropy   float64 `json:"entropy"`   // of its next token, in nats
	Threshold float64 `json:"threshold"` // the cloud is asked where the confidence is below
}

// LogProbs are what --logprobs adds to a token. (It has a capital because encoding/json sets only such embedded
// fields.)
type LogProbs struct {
	LogProb *float32     `json:"logprob"` // null where the cloud did not tell
	Top     []TopLogProb `json:"top"`     // the best tokens, best first
}

// TopLogProb is one of the best tokens.
type TopLogProb struct {
	ID      int32   `json:"id"`
	Text    string  `json:"text"`
	LogProb float32 `json:"logprob"`
}

// Summary is the last line of --json. Its fields are a contract.
type Summary struct {
	Tokens          []int32  `json:"tokens"`
	Text            string   `json:"text"`
	Stop            string   `json:"stop"`                // end, stop, length (-n), context (full), interrupted, failed
	Shortened       bool     `json:"shortened,omitempty"` // the value of --json-schema ended as the room did
	Ignored         []string `json:"ignored,omitempty"`   // paths of keywords of --json-schema that have no effect
	PromptTokens    int      `json:"prompt_tokens"`
	GeneratedTokens int      `json:"generated_tokens"`
	Seed            *uint64  `json:"seed,omitempty"` // of the draws, with a temperature only
	LoadMS          float64  `json:"load_ms"`        // from opening the model's file until a prompt could be taken
	PromptMS        float64  `json:"prompt_ms"`      // until the first token
	DecodeMS        float64  `json:"decode_ms"`      // from then on
	PromptTPS       float64  `json:"prompt_tps"`
	GenerationTPS   float64  `json:"generation_tps"`
	Passes          int      `json:"passes"`           // forward calls of the small model after the prompt
	PassesPerToken  float64  `json:"passes_per_token"` // of the tokens after the first, an end token included
	LookupProposed  int      `json:"lookup_proposed"`  // guesses from the text that were evaluated
	LookupAccepted  int      `json:"lookup_accepted"`  // of these, the tokens that did follow
	// tokens that a device went on with before it was certain that they follow: those that did, and those that did not
	RanAhead  int   `json:"ran_ahead,omitempty"`
	RanInVain int   `json:"ran_in_vain,omitempty"`
	KVBytes   int64 `json:"kv_bytes"`
	// why the run failed, or questions to the cloud stayed without an answer; else null
	Error *string `json:"error"`

	*Routed // with a cloud only
}

// RoutedEvent is what a summary says of the cloud. (It has a capital because encoding/json sets only such embedded
// fields.)
type Routed struct {
	CloudTokens int `json:"cloud_tokens"`
	// of all tokens, an end token included, those that the cloud chose
	EscalatedShare float64 `json:"escalated_share"`
	// tokens of the small model that stood because an answer was late or failed
	Timeouts     int `json:"timeouts"`
	EdgeTimeouts int `json:"edge_timeout_tokens"` // the same; the older name
	Escalations  int `json:"escalations"`         // questions that the text passed
	Answered     int `json:"answered"`            // of these, answered
	Needless     int `json:"needless"`            // of the answered, those with the small model's own token
	Unanswered   int `json:"unanswered"`          // of these, without an answer
	Known        int `json:"known"`               // of Escalations: not asked, since an earlier answer told
	Hits         int `json:"hits"`
	Asks         int `json:"asks"`
	Drafted      int `json:"drafted"`
	Wasted       int `json:"wasted"`
	// what the gateway's model says of the tokens before a question: exact (all of them are looked at), sampled (one of
	// them, drawn at random) or none; absent where there never was a connection
	Audit      string  `json:"audit,omitempty"`
	Audited    int     `json:"audited"`     // edge tokens that the cloud compared with its own choice
	Missed     int     `json:"missed"`      // of these, those where it would have chosen another
	AuditedFor int     `json:"audited_for"` // tokens that those compared stand for: more than these with sampled
	MissedFor  int     `json:"missed_for"`  // tokens that the missed stand for
	BytesUp    int     `json:"bytes_up"`
	BytesDown  int     `json:"bytes_down"`
	WaitMS     float64 `json:"wait_ms"`    // for the answers that came: what serial decoding would have waited
	HiddenMS   float64 `json:"hidden_ms"`  // of this, spent on drafting that held
	ExposedMS  float64 `json:"exposed_ms"` // lost by waiting, also for answers that never came
	LostMS     float64 `json:"lost_ms"`    // of this, for answers that never came

	// What the large model computed, in tokens. Prefilled are those of prompt and text that it read; decoded are those
	// that it was asked for; ahead are those that it went on to decode by itself, of which some were used. Warmed is
	// the part of the prompt that was sent before the first question.
	Prefilled int `json:"prefilled"`
	Decoded   int `json:"decoded"`
	Ahead     int `json:"ahead"`
	AheadUsed int `json:"ahead_used"`
	Warmed    int `json:"warmed"`
	// of the warmed, where nothing was asked then
	WarmedInVain int         `json:"warmed_in_vain"`
	Cost         *price.Cost `json:"cost,omitempty"` // with --price

	Verify     *float64 `json:"verify,omitempty"`     // the margin in nats, with --verify
	Turned     *int     `json:"turned,omitempty"`     // tokens that verification replaced before they were shown
	Unverified *int     `json:"unverified,omitempty"` // shown without verification, as no answer came in time

	Policy    string   `json:"policy,omitempty"`
	Promise   string   `json:"promise,omitempty"`   // of the share: certified, or balance (over all answers)
	Budget    float64  `json:"budget,omitempty"`    // that is promised
	Threshold *float64 `json:"threshold,omitempty"` // where it is the same for all tokens
	// what was proven of the threshold, and why that may not hold of this run
	Certificate *Certificate `json:"certificate,omitempty"`
	Doubts      []string     `json:"doubts,omitempty"`
	// of a budget: the sums of all answers before this one, and with it
	BalanceBefore *Balance      `json:"balance_before,omitempty"`
	Balance       *Balance      `json:"balance,omitempty"`
	Costs         []router.Cost `json:"costs,omitempty"`   // with --policy value, for --costs
	Explain       []Explanation `json:"explain,omitempty"` // with --explain

	All int `json:"-"` // tokens, an end token included
}

// Certificate is a certificate as JSON. Its fields are a contract.
type Certificate struct {
	Budget     float64 `json:"budget"`     // share of tokens
	Confidence float64 `json:"confidence"` // over the draw of the prompts
	Threshold  float64 `json:"threshold"`
	Share      float64 `json:"escalated_share"` // of the tokens that were decoded for it
	Prompts    int     `json:"prompts"`
	Tokens     int     `json:"tokens"`
	MaxTokens  int     `json:"max_tokens"` // of an answer
	PValue     float64 `json:"p_value"`
	Method     string  `json:"method"`
	Data       string  `json:"data"`   // SHA-256 of the prompts
	Prompt     string  `json:"prompt"` // chat or raw
	Model      string  `json:"model"`  // fingerprint of the small model
	Large      string  `json:"large"`  // and of the large one; "" where a gateway stood between
	LargeName  string  `json:"large_name"`
}

// Balance is a balance in the output of --json. Its fields are a contract.
type Balance struct {
	router.Total
	Share     float64 `json:"share"`     // escalations per token
	Threshold float64 `json:"threshold"` // of the first token of an answer that starts from it
}

// Explanation is what is known of a token and its decision. Its fields are a contract.
type Explanation struct {
	Pos        int     `json:"pos"`
	ID         int32   `json:"id"`
	Origin     string  `json:"origin"`
	Confidence float32 `json:"confidence"`
	Margin     float64 `json:"margin"`    // p₁ - p₂ of the small model
	Entropy    float64 `json:"entropy"`   // of its next token, in nats
	Threshold  float64 `json:"threshold"` // the cloud is asked where the confidence is below
	Local      int32   `json:"local"`     // the small model's token
	// stands, turned where verification replaced the small model's token, or of the question: hit, miss, known, late,
	// failed, unasked
	Outcome string `json:"outcome"`
	Why     string `json:"why,omitempty"` // of a question that verification wanted: every, end
	// the large model's token, where it is known: it was asked, or its audit looked at this position; and the logarithm
	// of its probability, where that is known too
	Cloud        *int32   `json:"cloud"`
	CloudLogProb *float32 `json:"cloud_logprob"`
}

// Result is the outcome, and who wanted to know if it was not the router.
func (r *Explanation) Result() string {
	if r.Why == "" {
		return r.Outcome
	}
	return r.Outcome + ", " + r.Why
}

// Unverified is a line of --json with --show-unverified. Its fields are a contract.
type Unverified struct {
	Pos    int     `json:"pos"`    // of the first token: the one after the last token event
	IDs    []int32 `json:"ids"`    // that follow, unless verification turns them; each event replaces the one before
	Text   string  `json:"text"`   // of these
	Turned int     `json:"turned"` // tokens of the event before that do not hold any more
}
