package engine

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// HTTP engines of a gateway, for programs that put the parts together through this package.
type (
	UpstreamOptions = upstream.Options
	UpstreamStats   = upstream.Stats
	UpstreamResult  = upstream.Result
)

// Upstream is inference engines over HTTP as the upstream of a gateway.
type Upstream struct{ *upstream.Upstream }

// OpenUpstream queries the capabilities of the engines. The tokens are those of the model file at path, which may hold
// only a vocabulary; OpenUpstream sets them in o. Close the upstream after the gateway has ended.
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

// CheckUpstream checks whether an engine can be the upstream of a gateway, and calls tell with the result of each
// check. It returns an error if the engine cannot, or if ctx has ended.
func CheckUpstream(ctx context.Context, path string, o UpstreamOptions, tell func(UpstreamResult)) error {
	o, err := withTokens(path, o)
	if err != nil {
		return err
	}
	return upstream.Check(ctx, o, tell)
}

func withTokens(path string, o UpstreamOptions) (UpstreamOptions, error) {
	t, err := ReadTokenizer(path)
	if err != nil {
		return o, err
	}
	o.Identity, o.Vocabulary, o.Draw, o.Ends = identityOf(t), &vocabulary{t, t.Used()}, drawToken, endsOf(t)
	return o, nil
}

// Gateway makes a QUIC server in front of the engines.
func (u *Upstream) Gateway(o GatewayOptions) (*gateway.Gateway, error) {
	return gateway.New(o, u.Upstream)
}

// Identity describes the meaning of the ids of the engines' model, from the file with its vocabulary. The error is nil.
func (u *Upstream) Identity() (netproto.Identity, error) { return u.Info().Identity, nil }

// drawToken chooses among the most probable tokens with the noise that the edge and the built-in model use, and returns
// the scores: see [sample.Sampler.Choose].
func drawToken(s terms.Sampling, pos int, top []terms.Candidate, stands int32) (
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

func endsOf(t *tokenizer.Tokenizer) (all []int32) {
	for id := range int32(t.Used()) {
		if t.IsEnd(id) {
			all = append(all, id)
		}
	}
	return all
}

// vocabulary is the tokenizer that engines are compared with.
type vocabulary struct {
	t    *tokenizer.Tokenizer
	size int
}

// Size is the number of tokens.
func (v *vocabulary) Size() int { return v.size }

// Encode returns the ids of a text, special tokens recognised.
func (v *vocabulary) Encode(text string) []int32 { return v.t.Encode(text, true) }

// Piece returns the bytes of a token; of a special token, which has no text, its spelling.
func (v *vocabulary) Piece(id int32) []byte {
	if v.t.IsControl(id) {
		return []byte(v.t.Text(id))
	}
	return v.t.Bytes(id)
}
