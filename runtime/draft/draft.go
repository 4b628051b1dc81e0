// Package draft decodes with a small model on the device and a large one far away. A router says at each position
// whether the small model's token may stand or the large model is asked. [Serial] decoding stops at each question and
// waits: it is the definition. [Pipelined] decoding guesses the answer, drafts on while questions travel, and drops
// what an answer contradicts. It shows the same tokens as long as every question is answered. With a deadline
// ([Options.Deadline]) questions can stay without an answer: the small model's token then stands, and the texts can
// differ.
//
//	settled text ── tip ─?─┬─ a ─ b ─ c ─?─┬─ f     "?" is an open escalation: its children are guesses at the answer,
//	                       │               └─ g     the k best tokens of the small model. Everything right of the tip
//	                       └─ d ─ e                 is the draft tree.
//
// The tip is the last token shown. No escalation before it is open, so it never changes. The package reaches models,
// policy and network through three interfaces: [Model], [Router] and [Cloud].
package draft

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// ID names a node of the draft tree. Ids begin with 1 and are not used twice in one call of [Decoder.Decode].
type ID int64

// Node is a token to evaluate: a leaf of the draft tree, or a guess at what follows one.
type Node struct {
	ID    ID
	Token int32
	Pos   int  // position in the whole text, prompt included
	Path  []ID // its ancestors beyond the settled text, the child of that first: evaluated, or earlier in the same call
}

// Model is the small model and its memory of one text: a settled prefix and a draft tree. It is called by one goroutine
// at a time. Heads may be overwritten by the next call; they hold at least [Options.Want].
type Model interface {
	// Prefill makes prompt the settled text and returns the head that follows its last token.
	Prefill(ctx context.Context, prompt []int32) (backend.Output, error)
	// Extend evaluates nodes in one forward call, keeps them in the draft tree, and returns the head that follows each,
	// with the same bits as a call for it alone. An ancestor of a node may precede it in the same call. After an error
	// the model keeps none of them.
	Extend(ctx context.Context, nodes []Node) ([]backend.Output, error)
	// Settle makes nodes the next tokens of the settled text, in the given order. Other nodes stay.
	Settle(path ...ID)
	// Drop forgets nodes of the draft tree.
	Drop(nodes ...ID)
	// Room is the number of further nodes that the memory can hold now.
	Room() int
}

// Router decides whether the cloud is asked for the token at pos, which follows head. The decision is a function of the
// path alone: path is the state that the decisions before it on its branch left, 0 at the start, and next the state
// that this one leaves.
type Router interface {
	Decide(path uint64, pos int, head *backend.Output) (confidence float32, escalate bool, next uint64)
}

// Dial bounds what verification replaces. It is a function of the path, as a [Router].
type Dial interface {
	// Margin returns the margin for the token after path: see [Options.Margin]. With an infinite one it stands.
	Margin(path uint64) float64
	// Count returns the state after one more token, which the large model replaced or not.
	Count(path uint64, replaced bool) uint64
}

// Explainer is a router that explains decisions. It is called after Decide, with the same arguments.
type Explainer interface {
	Explain(path uint64, pos int, head *backend.Output) (margin, entropy, threshold float64)
}

// Cloud asks the large model. Many calls may run at once, and their answers may come in any order.
type Cloud interface {
	// Ask waits for the token that follows q.Context. It returns soon after ctx is done: the question is then dropped.
	// The bytes of an answer count also where it comes with an error.
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Connection is a cloud whose connection may be lost. Others always count as connected.
type Connection interface{ Connected() bool }

// Verifier is a cloud that may be unable to verify tokens chosen by a sampling.
type Verifier interface {
	// CannotVerify returns why the cloud cannot; nil if it can, or if that is not known yet.
	CannotVerify(s terms.Sampling, judge string) error
}

// Warmer is a cloud that takes settled text before a question, so that the question is short and the keys and values of
// the text are computed.
type Warmer interface {
	// Warm returns when the cloud has the text, with the payload that it took. It returns soon after ctx is done.
	Warm(ctx context.Context, text []int32) (bytesUp, bytesDown int, err error)
}

// Question, Reply and Answer are what goes between decoding and the large model, on a wire or not.
type (
	Question = terms.Question
	Reply    = terms.Reply
	Answer   = terms.Answer
)

// AutoBranches, as [Options.Branches], means as many guesses as are worth their price.
const AutoBranches = -1

// MostBranches is the max number of guesses with [AutoBranches].
const MostBranches = 8

// MostAhead is the max number of tokens of an answer if there are checks and [Options.Ahead] is not set.
const MostAhead = 64

// SerialChecks is a value of [Options.CheckEvery] for measurements. Where the large model replaces one token in 14, as
// on real pairs, 5 of 6 are kept on average, and in a batch a further question costs little.
const SerialChecks = 6

// Mode says how decoding waits for answers.
type Mode int

// The modes.
const (
	Pipelined Mode = iota // draft on while answers are under way
	Serial                // stop and wait
)

// Why the small model's token stands where the cloud was to be asked. [Escalation.Err] wraps one of these, and the
// error that [Cloud.Ask] returned; an error of Ask before the deadline comes alone.
var (
	ErrDeadline   = errors.New("no answer before the deadline")
	ErrToken      = errors.New("the answer is no token of the vocabulary")
	ErrBreaker    = errors.New("not asked, since the cloud failed just before")
	ErrVerify     = errors.New("the answer does not say of each token whether it is the large model's choice")
	errDropped    = errors.New("the question rests on a token that did not hold")
	errDecodeOver = errors.New("decoding is over")
)

// Options say how to decode. The zero value is greedy pipelined decoding.
type Options struct {
	Mode     Mode
	Branches int // guesses at each answer; 0 means 2, AutoBranches: as many as are worth their price
	Window   int // max tokens drafted past the oldest open escalation; 0 means 32
	InFlight int // max open escalations; 0 means 4
	Rows     int // max rows of one forward call, leaves and guesses from the text; 0 means 8
	// Lookup is the max number of rows of a forward call with guesses from the text: what followed the same tokens
	// there. It is 2 to 8; 0 means 8, negative: no guesses. The number of guesses depends on how often they hold and on
	// the cost of a row. Tokens, origins and confidences are the same with any value.
	Lookup  int
	Cost    *lookup.Cost // the time of forward calls; nil: measured anew in each text
	Waits   *Waits       // the time of answers; nil: measured anew in each text
	Drafter Drafter      // a smaller model that drafts tokens; nil: none. Without a router and verification
	Drafts  *Drafts      // what is known of it; nil: measured anew in each text
	// Deadline is that of an escalation; 0: at least 800ms, or what the cloud takes; negative: none, and no breaker.
	Deadline  time.Duration
	MaxTokens int                 // max tokens to generate, the end token included; 0 means 512
	Room      int                 // tokens that the context can hold after the prompt; 0: any number
	Vocab     int                 // size of the vocabulary, to refuse other answers; 0: refuse only negative ones
	End       func(id int32) bool // tokens that end the text; nil: none
	Sampling  terms.Sampling      // how the cloud chooses, and the edge unless Pick is set
	// a pure function of its arguments; nil: as Sampling says
	Pick func(pos int, head *backend.Output) int32
	// Place says how tokens are chosen after the prompt, by the small model and from answers of the large one; nil: by
	// Pick, and as the large one answers. With verification, a token of the small model stands where the large one
	// chooses one that may not.
	Place   Place
	K       int  // number of best tokens with each answer; a Place chooses among them
	Top     int  // number of best tokens with each token, and its log-probability; 0: neither
	Audit   bool // compare the small model's tokens with the large model's choices
	Explain bool // give tokens the reason of their decision, from a router that is an [Explainer]
	// Warm is the number of settled tokens after the prompt that are sent without a question once the cloud lacks them.
	// 0 means 128. The prompt is sent at once, of any length. Negative: nothing is sent without a question.
	Warm int
	// Ahead is the max number of tokens of an answer: the one asked for, and up to Ahead-1 that the large model decodes
	// after it, which answer later questions of the same text. 0 means 1, or with checks [MostAhead]. It never changes
	// a token.
	Ahead int
	// Verify lets the large model verify each token of the small one before it is shown: if it prefers another by more
	// than Margin, in nats of [terms.Finding.Score], that one takes the place. With a Margin of 0 the text is the large
	// model's own.
	Verify bool
	Margin float64 // 0 or more, only with Verify
	// Judge is the fingerprint of the judge of the cloud that gives the scores: see [terms.EachJudged]. "": there is
	// none. Only with a Margin or a Dial.
	Judge string
	// Dial sets Verify, with a margin that depends on what was replaced before, if the cloud is a [Verifier] that can.
	// The router then asks for nothing. If it cannot, the router decides, without verification.
	Dial Dial
	// VerifyEvery is the max number of tokens without a question. 0 means 64, and in pipelined decoding further
	// questions when they are worth it: checks, which never change a token. Only with Verify.
	VerifyEvery int
	// CheckEvery is the max number of tokens that serial decoding drafts before it waits for a check: so fewer tokens
	// are evaluated in vain, and none changes. 0: no checks. Only with Verify.
	CheckEvery int
	// Preview emits the tokens that are drafted beyond the text before the first open question: see [Event.Preview].
	// Only with Verify.
	Preview bool
	Breaker *Breaker // of the cloud; nil: the decoder's own
	Clock   Clock    // of a simulation; nil: the computer's

	auto   bool // checks are asked: see [decodeRun.maybeStartCheck]
	adapts bool // the deadline follows the cloud: see [openQuestions.answerTimeout]
	// Trace emits more, for timelines: [Event.Prompt], [Event.Waited], [Event.Rollback] and [Pass.Nodes].
	Trace bool
}

func (o Options) withDefaults() Options {
	o.Verify = o.Verify || o.Dial != nil
	o.auto = o.auto || o.Verify && o.VerifyEvery == 0 && o.Mode == Pipelined
	if o.auto && o.Ahead == 0 {
		o.Ahead = MostAhead
	}
	for _, f := range []struct {
		v     *int
		value int
	}{{&o.Branches, 2}, {&o.Window, 32}, {&o.InFlight, 4}, {&o.Rows, 8}, {&o.MaxTokens, 512}, {&o.Warm, 128},
		{&o.VerifyEvery, 64}, {&o.Ahead, 1}} {
		if *f.v == 0 {
			*f.v = f.value
		}
	}
	if o.Deadline == 0 {
		o.Deadline, o.adapts = leastDeadline, true
	}
	if o.End == nil {
		o.End = func(int32) bool { return false }
	}
	if o.Breaker == nil {
		o.Breaker = new(Breaker)
	}
	return o
}

// Validate reports a value that is out of range.
func (o Options) Validate() error {
	for _, f := range []struct {
		name string
		v    int
	}{
		{"branches", o.Branches}, {"window", o.Window}, {"inflight", o.InFlight}, {"rows", o.Rows},
		{"most tokens", o.MaxTokens}, {"room", o.Room}, {"vocabulary", o.Vocab},
		{"best tokens with an answer", o.K}, {"best tokens of a token", o.Top},
		{"tokens ahead", o.Ahead}, {"tokens between questions of verification", o.VerifyEvery},
		{"tokens between checks", o.CheckEvery},
	} {
		if f.v < 0 && !(f.name == "branches" && f.v == AutoBranches) {
			return fmt.Errorf("%s: %d is negative, but must not be", f.name, f.v)
		}
	}
	if most := lookup.MostRows; o.Lookup == 1 || o.Lookup > most {
		return fmt.Errorf("lookup: %d is not possible: 2 to %d rows, 0 for as many, negative for none", o.Lookup, most)
	}
	if o.Mode != Pipelined && o.Mode != Serial {
		return fmt.Errorf("mode: %d is neither pipelined nor serial", o.Mode)
	}
	return errors.Join(o.validateVerify(), o.Sampling.Validate())
}

func (o Options) validateVerify() error {
	switch {
	case !(o.Margin >= 0) || math.IsInf(o.Margin, 1):
		return fmt.Errorf("margin: %v is not a number of at least 0", o.Margin)
	case o.Dial != nil && o.Margin != 0:
		return errors.New("a margin and a dial are given, which excludes the other: leave one out")
	case !o.Verify && o.Dial == nil && (o.Margin != 0 || o.VerifyEvery != 0 || o.CheckEvery != 0 || o.Preview):
		return errors.New("a margin, a number of tokens between questions or checks, or a preview is given, but no " +
			"verification")
	}
	return nil
}

func (o Options) tokenLimit() (tokens int, stop string) {
	if o.Room > 0 && o.Room < o.MaxTokens {
		return o.Room, "context"
	}
	return o.MaxTokens, "length"
}

// Want adds to w what decoding needs of each head, besides router and sampler: the tokens that become branches.
func (o Options) Want(w backend.Want) backend.Want {
	w.K = max(w.K, o.maxGuesses(), o.Top)
	if !o.Sampling.Greedy() {
		w.K = max(w.K, MostBranches) // the most likely to be drawn are not the most probable ones
	}
	if o.Explain {
		w.K = max(w.K, 2) // for the margin
	}
	return w
}

// Decoder decodes one text at a time with one model.
type Decoder struct {
	o      Options
	model  Model
	router Router
	cloud  Cloud

	verified bool
}

// Verified reports whether the large model verified the last text: with [Options.Verify], and with a [Options.Dial] if
// the cloud could.
func (d *Decoder) Verified() bool { return d.verified }

// New makes a decoder. A nil router never escalates, and cloud may then be nil too.
func New(m Model, r Router, c Cloud, o Options) (*Decoder, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if (r != nil || o.Verify || o.Dial != nil) && c == nil {
		return nil, errors.New("there is a router, or verification, but no cloud that could be asked")
	}
	if o.Drafter != nil && c != nil {
		return nil, errors.New("drafts are evaluated by one model, and there are both a drafter and a cloud")
	}
	o = o.withDefaults()
	if o.Pick == nil {
		s, err := sample.New(o.Sampling)
		if err != nil {
			return nil, err
		}
		o.Pick = s.Pick
	}
	return &Decoder{o: o, model: m, router: r, cloud: c}, nil
}
