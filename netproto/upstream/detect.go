package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// detectDialect returns an engine in its dialect. It detects the dialect by the owner in the engine's list of models,
// else by an endpoint that only one dialect has; an engine with no such sign must speak vLLM's.
func detectDialect(ctx context.Context, c *dialect.Client, model string) (dialect.Engine, error) {
	models, err := dialect.Models(ctx, c)
	if err == nil {
		switch models[0].Owner {
		case "sglang":
			return dialect.NewSGLang(c), nil
		case "llamacpp":
			return dialect.NewLlama(c), nil
		case "vllm":
			return dialect.NewVLLM(c, model), nil
		}
	} else if dialect.Status(err) != 404 {
		return nil, classifyRefusal(err)
	}
	for _, sign := range []struct {
		path, field string
		engine      dialect.Engine
	}{
		{"/props", "total_slots", dialect.NewLlama(c)},
		{"/get_model_info", "model_path", dialect.NewSGLang(c)},
	} {
		var w map[string]any
		switch err := c.Get(ctx, sign.path, &w); {
		case err == nil && w[sign.field] != nil:
			return sign.engine, nil
		case err != nil && dialect.Status(err) == 0 && !errors.Is(err, dialect.ErrReply):
			return nil, err
		}
	}
	if err != nil {
		return nil, &unsuitableError{fmt.Errorf("it is not SGLang, vLLM or llama-server: %s", dialect.Said(err))}
	}
	return dialect.NewVLLM(c, model), nil
}
