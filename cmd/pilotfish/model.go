package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// modelFlags are the flags of every command that runs a model.
type modelFlags struct {
	path    string
	threads int
	context int
	kv      string
	backend string
	exact   bool
}

func (m *modelFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&m.path, "model", "m", "", "the model, a GGUF `file` (required)")
	f.IntVarP(&m.threads, "threads", "t", 0, "CPU threads; 0 means one for each core this process may use")
	f.IntVarP(&m.context, "ctx", "c", 0, fmt.Sprintf("longest text in tokens, prompt and answer; 0 means %d, or the model's limit if that is less", engine.DefaultContext))
	f.StringVar(&m.kv, "kv", "f16", "`type` of the keys and values kept: f16 or f32")
	f.StringVar(&m.backend, "backend", "cpu", "where the model runs: cpu")
	f.BoolVar(&m.exact, "exact", false, "float32 activations, keys and values, and generic Go throughout: slow, the reference")
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

// open opens the model. Wrong values are wrong usage, a bad file is a failure.
func (m *modelFlags) open() (*engine.Engine, error) {
	switch {
	case m.backend != "cpu":
		return nil, usagef("--backend %s: this build has cpu", m.backend)
	case m.kv != "f16" && m.kv != "f32":
		return nil, usagef("--kv %s: f16 or f32", m.kv)
	case m.threads < 0:
		return nil, usagef("--threads %d: negative", m.threads)
	case m.context < 0:
		return nil, usagef("--ctx %d: negative", m.context)
	}
	return engine.Open(m.path, engine.Options{Threads: m.threads, Context: m.context, KV32: m.kv == "f32", Exact: m.exact})
}

// parseIDs reads token ids separated by commas.
func parseIDs(list string) ([]int32, error) {
	var ids []int32
	for field := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || id < 0 {
			return nil, usagef("--tokens: %q is not a token id", field)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
