// Package dialect is what the HTTP interfaces of inference engines have in common: what a gateway wants of an engine,
// in one form, and the client that talks to it. Each dialect is a package of its own beside this one.
//
// Ids go in and ids come out. Where an engine gives text only, it must be the spelling of exactly one token; no text is
// ever made into tokens again.
package dialect

import (
	"context"
	"errors"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Engine is an inference engine. All methods may be called from many goroutines at once. When ctx ends, the engine is
// told to stop and the method returns soon.
type Engine interface {
	// Describe finds out what the engine can do, with a few requests of its own, which no other has the salt of.
	Describe(ctx context.Context, v Vocabulary, salt string) (Facts, error)

	// Ask returns the engine's most probable token behind a context, and what else is wanted.
	Ask(ctx context.Context, a Ask) (Reply, error)

	// Warm makes the engine compute a context, so that an Ask about a longer one finds it in the cache.
	Warm(ctx context.Context, a Ask) error

	// Alive asks whether the engine takes requests. It costs no computing.
	Alive(ctx context.Context) error

	// Tokenize returns the ids of a text, with special tokens and without any that the text does not have. Where the
	// engine does not offer that, the error is ErrAbsent.
	Tokenize(ctx context.Context, text string) ([]int32, error)

	// Detokenize returns the text of ids, special tokens spelled out, or ErrAbsent.
	Detokenize(ctx context.Context, ids []int32) (string, error)
}

// Forgetter is an engine that keeps something for each session.
type Forgetter interface {
	// Forget says that there will be no Ask for a session any more.
	Forget(session uint64)
}

// Vocabulary is the tokens of the model that the devices have: of the GGUF file that the operator names.
type Vocabulary interface {
	Size() int                  // tokens, without unused ones at the end
	Encode(text string) []int32 // with special tokens recognised
	Piece(id int32) []byte      // the bytes that a token stands for; of a special token its spelling
	Find(piece []byte) int32    // the only token that stands for these bytes, or -1
}

// Facts are what an engine says of itself, and what was found out by asking it.
type Facts struct {
	Dialect    string // "llama", "sglang", "vllm" or "openai"
	Version    string // of the program; "" if it does not say
	Model      string // as the engine calls it
	MaxContext int    // most tokens of a context, so that one more can follow; 0 if it does not say
	Vocab      int    // rows of the table of tokens, which may be more than a vocabulary has; 0 if it does not say
	Parallel   int    // requests that it works on at a time; 0 if it does not say
	Choices    int    // most probable tokens that it gives with their probabilities, at most netproto.MaxK
	Audit      netproto.Audit
	Notes      []string // for the operator: what was found, and what would serve better
}

// Ask is a question to an engine over HTTP. An engine neither draws nor verifies as a gateway promises: an upstream
// asks for the most probable tokens that this takes, and makes the answer of them. So it is no gateway.Question.
type Ask struct {
	Name      string  // unique among requests: for the engine's log, and to cancel it
	Session   uint64  // whose contexts begin alike
	Salt      string  // requests with different salts share no cache; "" where that does not matter
	Context   []int32 // at least one token
	K         int     // most probable tokens wanted, at most Facts.Choices
	AuditFrom int     // an exact audit is wanted from here on; 0: none
	Sample    int     // a sampled audit: the position to look at, from 1 to len(Context)-1; 0: none
	// so many of the most probable tokens of each position from AuditFrom on are wanted, of all of these, whatever the
	// cache has; at most Facts.Choices, and only where Facts.Audit is exact. 0: none
	Rows int
}

// Reply is what an engine says to an Ask: what an upstream makes a netproto.Answer of.
type Reply struct {
	Token    int32             // the most probable one
	Top      []terms.Candidate // the K most probable ones, best first; fewer, or none, where the engine gives fewer
	Audited  int               // positions at the end of the context that were looked at; with Sample, 1 or 0
	Audit    []terms.Finding   // those of them where the engine would have chosen another token
	Rows     []Row             // with Ask.Rows, of each position from AuditFrom on; none where Unheard is set
	Cached   int               // tokens of the context that its cache had; -1 if it does not say
	Extra    int               // tokens that it computed for the audit alone
	Unheard  error             // why an audit that was wanted did not come; the answer stands
	Requests int               // HTTP requests that it took
	Compute  time.Duration     // within the engine, if it says so; else from sending the request to its reply
}

// Row is what an engine says of a position of a context.
type Row struct {
	Top    []terms.Candidate // the most probable tokens, best first; at least one
	Stands float32           // log-probability of the token that stands there; not above that of the best one
}

// Speller is an engine that does not detokenize, but can say how it spells what it is given.
type Speller interface {
	// Spell returns the text of each token of a context, or ErrAbsent.
	Spell(ctx context.Context, context []int32) ([][]byte, error)

	// Next returns the text of the token that follows a context, however else the engine may tell which it is.
	Next(ctx context.Context, context []int32) ([]byte, error)
}

// Slotted is an engine that keeps what it computed for a session in one of a few slots.
type Slotted interface {
	// Evicted returns how many sessions have lost their slot to others so far.
	Evicted() uint64
}

// Closer is an engine that has work of its own to end, once nothing is under way.
type Closer interface{ Close() }

// Errors of an engine, beside those of the network and a StatusError.
var (
	ErrAbsent = errors.New("the engine does not offer this")
	ErrReply  = errors.New("the engine's reply is not what it should be")
	ErrPiece  = errors.New("the text of the engine's token is not that of exactly one token")
)
