package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// runFlags are the flags of `pilotfish run`.
type runFlags struct {
	model     modelFlags
	profile   profileFlag
	mode      string
	system    string
	tokens    string
	raw       bool
	max       int
	ignoreEnd bool
	json      bool
	sampling  sample.Options
}

// newRunCommand answers one prompt.
func newRunCommand(a *app) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run -m FILE [flags] [PROMPT | -]",
		Short: "Answer a prompt, token by token",
		Long: `Answer a prompt. The text goes to stdout as it is made, speeds go to stderr.

The prompt is the question of a chat; with --raw it is the beginning of a text that the model goes on with. "-", or no
prompt with something piped in, reads it from stdin.`,
		Example: `  pilotfish run -m qwen2.5-0.5b-instruct-q8_0.gguf "What does a pilot fish do?"`,
		RunE: func(c *cobra.Command, args []string) error {
			stop, err := f.profile.start(a)
			if err != nil {
				return err
			}
			defer stop()
			return f.run(c.Context(), a, args)
		},
	}
	f.register(c)
	return c
}

func (f *runFlags) register(c *cobra.Command) {
	f.model.register(c)
	f.profile.register(c)
	p := c.Flags()
	p.StringVar(&f.mode, "mode", "local", "who decides: local is the model on this device alone")
	p.StringVar(&f.system, "system", "", "system `message` of the chat, in place of the model's own")
	p.StringVar(&f.tokens, "tokens", "", "the prompt as token `ids`: 1,2,3")
	p.BoolVar(&f.raw, "raw", false, "take the prompt without chat template; special tokens in it are recognised")
	p.IntVarP(&f.max, "max-tokens", "n", 256, "most tokens to generate; 0 means as many as the context holds")
	p.BoolVar(&f.ignoreEnd, "ignore-eos", false, "go on after an end token")
	p.Float64Var(&f.sampling.Temperature, "temp", 0, "temperature; 0 always takes the best token")
	p.IntVar(&f.sampling.TopK, "top-k", 0, "draw among the k best tokens only; 0 means all")
	p.Float64Var(&f.sampling.TopP, "top-p", 1, "draw among the best tokens that make up this share only")
	p.Uint64Var(&f.sampling.Seed, "seed", 0, "seed of the draw: the same seed gives the same text")
	p.BoolVar(&f.json, "json", false, "one JSON object per token, and a summary last")
}

func (f *runFlags) run(ctx context.Context, a *app, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	begin := time.Now()
	e, err := f.model.open()
	if err != nil {
		return err
	}
	defer e.Close()
	if err := a.preload(ctx, e); err != nil {
		return err
	}
	ids, err := f.prompt(a, e, args)
	if err != nil {
		return err
	}
	s, err := e.NewSession()
	if err != nil {
		return err
	}
	out := &runOutput{a: a, json: f.json, load: time.Since(begin), kvBytes: s.KVBytes()}
	for t, err := range s.Generate(ctx, ids, engine.Request{MaxTokens: f.max, Sampling: f.sampling, IgnoreEnd: f.ignoreEnd}) {
		if err == nil {
			err = out.token(t)
		}
		if err != nil {
			return errors.Join(err, out.finish(s.Summary()))
		}
	}
	return out.finish(s.Summary())
}

// check refuses flags that make no sense before the model is opened.
func (f *runFlags) check(args []string) error {
	switch err := f.sampling.Validate(); {
	case err != nil:
		return usagef("%w", err)
	case f.mode != "local":
		return usagef("--mode %s: this build has local", f.mode)
	case f.max < 0:
		return usagef("-n %d: negative", f.max)
	case f.tokens != "" && len(args) > 0:
		return usagef("--tokens and a prompt exclude each other")
	case f.system != "" && (f.raw || f.tokens != ""):
		return usagef("--system belongs to a chat: it excludes --raw and --tokens")
	}
	return nil
}

// prompt returns the ids to begin with.
func (f *runFlags) prompt(a *app, e *engine.Engine, args []string) ([]int32, error) {
	if f.tokens != "" {
		return parseIDs(f.tokens)
	}
	text, err := readPrompt(a, args)
	switch {
	case err != nil:
		return nil, err
	case f.raw:
		return e.RawPrompt(text)
	}
	chat := []tokenizer.Message{{Role: "user", Content: text}}
	if f.system != "" {
		chat = slices.Insert(chat, 0, tokenizer.Message{Role: "system", Content: f.system})
	}
	ids, err := e.Chat(chat...)
	if errors.Is(err, tokenizer.ErrUnsupported) {
		err = fmt.Errorf("%w; --raw goes on with a text instead", err)
	}
	return ids, err
}

// readPrompt returns the arguments as one text, or what is piped in.
func readPrompt(a *app, args []string) (string, error) {
	if len(args) > 0 && !(len(args) == 1 && args[0] == "-") {
		return strings.Join(args, " "), nil
	}
	if file, ok := a.stdin.(*os.File); ok && len(args) == 0 && isTerminal(file) {
		return "", usagef("no prompt: give one as an argument, or pipe it in")
	}
	b, err := io.ReadAll(a.stdin)
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	if len(b) == 0 {
		return "", usagef("no prompt: give one as an argument, or pipe it in")
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}
