// Package dialect has the HTTP interfaces of inference engines: what a gateway needs of an engine, in one form, with an
// implementation for each kind of engine (sglang.go, vllm.go, llama.go), and the HTTP client. Requests and replies
// contain token ids, never text.
package dialect

import (
	"context"
	"errors"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Engine is an inference engine. Its methods are safe for concurrent use. When ctx ends, a method stops the engine's
// work on the request and returns soon.
type Engine interface {
	// Describe finds out what the engine can do, with a few requests of its own. No other request may have the same
	// salt.
	Describe(ctx context.Context, v Vocabulary, salt string) (Facts, error)

	// Ask returns the engine's most probable token after a context, and what else is requested.
	Ask(ctx context.Context, a Ask) (Reply, error)

	// Warm makes the engine compute a context, so that an Ask about a longer one finds it in the cache.
	Warm(ctx context.Context, a Ask) error

	// Alive checks whether the engine accepts requests, without using the model.
	Alive(ctx context.Context) error

	// Tokenize returns the ids of a text: special tokens are recognised, and none are added. The error is ErrAbsent if
	// the engine does not support it.
	Tokenize(ctx context.Context, text string) ([]int32, error)

	// Detokenize returns the text of ids, special tokens spelled out, or ErrAbsent.
	Detokenize(ctx context.Context, ids []int32) (string, error)
}

// Forgetter is an engine that stores something for each session.
type Forgetter interface {
	// Forget releases what is stored for a session. There will be no more Ask for it.
	Forget(session uint64)
}

// Vocabulary is the vocabulary of the devices' model, from the GGUF file that the operator names.
type Vocabulary interface {
	Size() int                  // tokens, without unused ones at the end
	Encode(text string) []int32 // with special tokens recognised
	Piece(id int32) []byte      // the bytes of a token; for a special token its name
}

// Facts describe an engine: what it reports about itself, and the results of test requests.
type Facts struct {
	Dialect    string // "llama", "sglang" or "vllm"
	Version    string // of the program; "" if unknown
	Model      string // the engine's name for it
	MaxContext int    // maximum number of tokens of a context that can be continued by one; 0 if unknown
	Vocab      int    // rows of the embedding, which may exceed the vocabulary; 0 if unknown
	Parallel   int    // concurrent requests; 0 if unknown
	Choices    int    // maximum number of most probable tokens in a reply, at most netproto.MaxK
	Audit      netproto.Audit
}

// Ask is a request to an engine over HTTP. Engines do not sample and verify in the way that a gateway guarantees: an
// upstream requests the most probable tokens and computes the answer from them. So this differs from terms.Question.
type Ask struct {
	Name      string  // unique among requests: for the engine's log, and to cancel it
	Session   uint64  // contexts of a session have a common prefix
	Salt      string  // requests with different salts share no cache; "" if that does not matter
	Context   []int32 // at least one token
	K         int     // number of most probable tokens, at most Facts.Choices
	AuditFrom int     // first position of an audit, only if Facts.Audit is exact; 0: none
	Rows      int     // number of most probable tokens for each audited position, at most Facts.Choices; 0 means 1
	All       bool    // positions in the engine's cache are audited as well
}

// Reply is an engine's reply to an Ask, from which an upstream computes a netproto.Answer.
type Reply struct {
	Token   int32             // the most probable token
	Top     []terms.Candidate // the K most probable tokens, best first; fewer, or none, if the engine returns fewer
	Rows    []Row             // for the audited positions, at the end of the context; none if Unheard is set
	Cached  int               // cached tokens of the context; -1 if unknown
	Unheard error             // why a requested audit is missing; the answer is valid
	Compute time.Duration     // in the engine, if it reports that; else from sending the request to its reply
}

// Row is the result of an audit for one position.
type Row struct {
	Top    []terms.Candidate // the most probable tokens, best first; at least one
	Stands float32           // log-probability of the token in the context; not above that of the best one
}

// Errors of an engine, besides those of the network and a StatusError.
var (
	ErrAbsent = errors.New("the engine does not support this")
	ErrReply  = errors.New("the engine's reply is invalid")
	ErrModel  = errors.New("it serves no model")
)
