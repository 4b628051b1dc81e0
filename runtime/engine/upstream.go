package engine

import (
	"context"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Engines behind a gateway, for programs that put the parts together through this package.
type (
	UpstreamOptions = upstream.Options
	UpstreamKind    = upstream.Kind
	UpstreamStats   = upstream.Stats
	UpstreamResult  = upstream.Result
)

// UpstreamKinds are the dialects that engines are known to speak, and auto.
func UpstreamKinds() []UpstreamKind { return upstream.Kinds() }

// Upstream is inference engines that speak HTTP as what a gateway asks.
type Upstream struct{ u *upstream.Upstream }

// OpenUpstream asks engines what they can do. The tokens are those of the model file at path, of which nothing else is
// read: it may hold a vocabulary alone. Of o, what concerns tokens is filled in. Close it when the gateway has ended.
func OpenUpstream(ctx context.Context, path string, o UpstreamOptions) (*Upstream, error) {
	o, err := withTokens(path, o)
	if err != nil {
		return nil, err
	}
	u, err := upstream.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Upstream{u}, nil
}

// CheckUpstream finds out whether one engine is fit to stand behind a gateway, and tells what each check found. The
// error says that it is not, or that ctx has ended.
func CheckUpstream(ctx context.Context, path string, o UpstreamOptions, tell func(UpstreamResult)) error {
	o, err := withTokens(path, o)
	if err != nil {
		return err
	}
	return upstream.Check(ctx, o, tell)
}

// withTokens fills in what concerns the tokens of a model file.
func withTokens(path string, o UpstreamOptions) (UpstreamOptions, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return o, err
	}
	defer f.Close()
	t, err := tokenizer.FromGGUF(f)
	if err != nil {
		return o, fmt.Errorf("%s: %w", path, err)
	}
	o.Identity, o.Vocabulary, o.Draw, o.Ends = identityOf(t), newVocabulary(t), draw, endsOf(t)
	return o, nil
}

// Gateway makes a QUIC server in front of the engines.
func (u *Upstream) Gateway(o GatewayOptions) (*gateway.Gateway, error) { return gateway.New(o, u.u) }

// Identity says what the ids of the engines' model mean, and how it writes a chat, by the file with its vocabulary. The
// error is nil, as that file has been read.
func (u *Upstream) Identity() (netproto.Identity, error) { return u.u.Info().Identity, nil }

// Context is the longest context of a question, in tokens; 0 if no engine says so.
func (u *Upstream) Context() int { return u.u.Info().MaxContext }

// Stats returns what the engines have done. It waits for none of them.
func (u *Upstream) Stats() UpstreamStats { return u.u.Stats() }

// Ready returns why no question can be answered; nil if an engine is in service.
func (u *Upstream) Ready() error { return u.u.Ready() }

// Close ends what looks after the engines. No gateway may ask them any more.
func (u *Upstream) Close() { u.u.Close() }

// draw chooses among the most probable tokens with the noise that edge and built-in model use, and says by which
// scores: see [sample.Sampler.Choose].
func draw(s terms.Sampling, pos int, top []terms.Candidate, stands int32) (
	choice int32, score, standing float32, err error,
) {
	sampler, err := sample.New(s)
	if err != nil {
		return 0, 0, 0, err
	}
	head := backend.FromLogProbs(top)
	choice, score, standing = sampler.Choose(pos, &head, stands)
	return choice, score, standing, nil
}

// endsOf returns the tokens that end a text.
func endsOf(t *tokenizer.Tokenizer) (all []int32) {
	for id := range int32(t.Used()) {
		if t.IsEnd(id) {
			all = append(all, id)
		}
	}
	return all
}

// vocabulary is a tokenizer as what engines are compared with.
type vocabulary struct {
	t    *tokenizer.Tokenizer
	size int
	only map[string]int32 // the token of a text that exactly one stands for
}

func newVocabulary(t *tokenizer.Tokenizer) *vocabulary {
	v := &vocabulary{t: t, size: t.Used(), only: make(map[string]int32, t.Used())}
	for id := range int32(v.size) {
		piece := string(v.Piece(id))
		if _, twice := v.only[piece]; twice {
			id = -1
		}
		v.only[piece] = id
	}
	return v
}

// Size is the number of tokens.
func (v *vocabulary) Size() int { return v.size }

// Encode returns the ids of a text, special tokens recognised.
func (v *vocabulary) Encode(text string) []int32 { return v.t.Encode(text, true) }

// Piece returns the bytes of a token; of a special one, which stands for no text, its spelling.
func (v *vocabulary) Piece(id int32) []byte {
	if v.t.IsControl(id) {
		return []byte(v.t.Text(id))
	}
	return v.t.Bytes(id)
}

// Find returns the only token with these bytes, or -1.
func (v *vocabulary) Find(piece []byte) int32 {
	if id, ok := v.only[string(piece)]; ok {
		return id
	}
	return -1
}
