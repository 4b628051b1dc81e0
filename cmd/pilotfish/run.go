package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// runFlags are the flags of `pilotfish run`.
type runFlags struct {
	model     modelFlags
	profile   profileFlag
	route     routeFlags
	cloud     cloudFlags
	mode      string
	system    string
	ids       string
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
		Example: `  pilotfish run -m qwen2.5-0.5b-instruct-q8_0.gguf "What does a pilot fish do?"
  pilotfish run -m small.gguf --cloud gpu.example.org:4433 --pin 9f86…  "What does a pilot fish do?"`,
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
	f.cloud.register(p)
	f.route.register(p)
	p.StringVar(&f.mode, "mode", "", "local: this device alone; serial: wait for each answer of the cloud; pipelined: draft on meanwhile (default pipelined with --cloud, else local)")
	p.StringVar(&f.system, "system", "", "system `message` of the chat, in place of the model's own")
	p.StringVar(&f.ids, "tokens", "", "the prompt as token `ids`: 1,2,3")
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
	tokens, end, err := f.tokens(ctx, a, e, s, ids)
	if err != nil {
		return err
	}
	defer end()
	out := newRunOutput(a, f.json, time.Since(begin), s)
	for t, err := range tokens {
		if err == nil {
			err = out.token(t)
		}
		if err != nil {
			return errors.Join(err, out.finish())
		}
	}
	return out.finish()
}

// tokens begins the generation that the mode asks for, and returns what ends it.
func (f *runFlags) tokens(ctx context.Context, a *app, e *engine.Engine, s *engine.Session, ids []int32) (iter.Seq2[engine.Token, error], func(), error) {
	request := engine.Request{MaxTokens: f.max, Sampling: f.sampling, IgnoreEnd: f.ignoreEnd}
	if f.cloud.address == "" || f.mode == "local" {
		return s.Generate(ctx, ids, request), func() {}, nil
	}
	r := engine.Route{Request: request, Pace: f.route.edgeTPS, Observe: a.warnOnce()}
	var err error
	if r.Draft, err = f.route.draft(); err != nil {
		return nil, nil, err
	}
	if f.mode == "serial" {
		r.Draft.Mode = engine.Serial
	}
	policy, err := f.route.router(nil)
	if err != nil {
		return nil, nil, err
	}
	if r.Router, err = router.New(policy); err != nil {
		return nil, nil, usagef("%w", err)
	}
	remote, err := f.cloud.dial(ctx, a, e)
	if err != nil {
		return nil, nil, err
	}
	cloud, end, err := remote.Session(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, remote.Close())
	}
	r.Cloud = cloud
	before := runtime.GOMAXPROCS(e.Threads() + 2) // the network is heard while all threads compute
	return s.Routed(ctx, ids, r), func() {
		end()
		remote.Close()
		runtime.GOMAXPROCS(before)
	}, nil
}

// warnOnce says on stderr why the cloud did not answer, the first time that it does not.
func (a *app) warnOnce() func(engine.Event) {
	warned := false
	return func(e engine.Event) {
		if e.Escalation == nil || e.Escalation.Err == nil || warned {
			return
		}
		warned = true
		fmt.Fprintf(a.stderr, "\npilotfish: no answer from the cloud, going on alone: %v\n", e.Escalation.Err)
	}
}

// check refuses flags that make no sense before the model is opened.
func (f *runFlags) check(args []string) error {
	switch err := f.sampling.Validate(); {
	case err != nil:
		return usagef("%w", err)
	case f.mode != "" && f.mode != "local" && f.mode != "serial" && f.mode != "pipelined":
		return usagef("--mode %s: local, serial or pipelined", f.mode)
	case (f.mode == "serial" || f.mode == "pipelined") && f.cloud.address == "":
		return usagef("--mode %s needs --cloud", f.mode)
	case f.max < 0:
		return usagef("-n %d: negative", f.max)
	case f.ids != "" && len(args) > 0:
		return usagef("--tokens and a prompt exclude each other")
	case f.system != "" && (f.raw || f.ids != ""):
		return usagef("--system belongs to a chat: it excludes --raw and --tokens")
	}
	return nil
}

// prompt returns the ids to begin with.
func (f *runFlags) prompt(a *app, e *engine.Engine, args []string) ([]int32, error) {
	if f.ids != "" {
		return parseIDs(f.ids)
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
