package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// Kind is the name of a dialect.
type Kind string

// The dialects, and Auto, which detects the dialect.
const (
	Auto   Kind = "auto"
	SGLang Kind = "sglang"
	VLLM   Kind = "vllm"
	Llama  Kind = "llama"
	OpenAI Kind = "openai"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Auto, SGLang, VLLM, Llama, OpenAI} }

// engine returns an engine of this kind.
func (k Kind) engine(ctx context.Context, c *dialect.Client, model string) (dialect.Engine, error) {
	switch k {
	case SGLang:
		return dialect.NewSGLang(c), nil
	case VLLM:
		return dialect.NewVLLM(c, model), nil
	case Llama:
		return dialect.NewLlama(c), nil
	case OpenAI:
		return dialect.NewOpenAI(c, model), nil
	case Auto, "":
		found, err := recognise(ctx, c)
		if err != nil {
			return nil, err
		}
		return found.engine(ctx, c, model)
	}
	return nil, &wrong{fmt.Errorf("%q is not a kind of engine", k)}
}

// recognise detects the dialect of an engine: by the owner in its list of models, else by an endpoint that only one
// dialect has.
func recognise(ctx context.Context, c *dialect.Client) (Kind, error) {
	models, err := dialect.Models(ctx, c)
	if err == nil {
		if k, ok := map[string]Kind{"sglang": SGLang, "vllm": VLLM, "llamacpp": Llama}[models[0].Owner]; ok {
			return k, nil
		}
	} else if dialect.Status(err) != 404 {
		return "", refusal(err)
	}
	for _, sign := range []struct {
		kind Kind
		path string
		have func(map[string]any) bool
	}{
		{Llama, "/props", func(w map[string]any) bool { return w["total_slots"] != nil }},
		{SGLang, "/get_model_info", func(w map[string]any) bool { return w["model_path"] != nil }},
	} {
		var w map[string]any
		switch err := c.Get(ctx, sign.path, &w); {
		case err == nil && sign.have(w):
			return sign.kind, nil
		case err != nil && dialect.Status(err) == 0 && !errors.Is(err, dialect.ErrReply):
			return "", err
		}
	}
	if err != nil {
		return "", &wrong{fmt.Errorf("unknown kind of engine: %s", dialect.Said(err))}
	}
	return OpenAI, nil
}
