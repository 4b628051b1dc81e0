package main

import (
	"fmt"
	"io"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// runOutput prints what `pilotfish run` generates.
type runOutput struct {
	a       *app
	json    bool
	load    time.Duration
	kvBytes int64
	ids     []int32
	printed int // bytes of text
}

// tokenEvent is one line of --json. Its fields are a contract.
type tokenEvent struct {
	Pos        int     `json:"pos"`
	ID         int32   `json:"id"`
	Text       string  `json:"text"`
	Origin     string  `json:"origin"`
	Confidence float32 `json:"confidence"`
}

// summaryEvent is the last line of --json. Its fields are a contract.
type summaryEvent struct {
	Tokens          []int32 `json:"tokens"`
	Text            string  `json:"text"`
	Stop            string  `json:"stop"` // end, length or interrupted
	PromptTokens    int     `json:"prompt_tokens"`
	GeneratedTokens int     `json:"generated_tokens"`
	LoadMS          float64 `json:"load_ms"`
	PromptMS        float64 `json:"prompt_ms"` // until the first token
	DecodeMS        float64 `json:"decode_ms"` // from then on
	PromptTPS       float64 `json:"prompt_tps"`
	GenerationTPS   float64 `json:"generation_tps"`
	KVBytes         int64   `json:"kv_bytes"`
}

// token prints one token.
func (o *runOutput) token(t engine.Token) error {
	o.ids = append(o.ids, t.ID)
	if o.json {
		return o.a.printJSON(tokenEvent{Pos: t.Pos, ID: t.ID, Text: t.Text, Origin: t.Origin, Confidence: t.Confidence})
	}
	o.printed += len(t.Text)
	_, err := io.WriteString(o.a.stdout, t.Text)
	return err
}

// finish prints the rest of the text and what it took. Nothing is printed where not even the prompt was run.
func (o *runOutput) finish(s engine.Summary) error {
	if s.PromptTime == 0 {
		return nil
	}
	if s.Stop == "" {
		s.Stop = "interrupted"
	}
	e := summaryEvent{
		Tokens: append([]int32{}, o.ids...), Text: s.Text, Stop: s.Stop, PromptTokens: s.PromptTokens, GeneratedTokens: s.Tokens,
		LoadMS: ms(o.load), PromptMS: ms(s.PromptTime), DecodeMS: ms(s.DecodeTime), KVBytes: o.kvBytes,
		PromptTPS:     perSecond(s.PromptTokens, s.PromptTime),
		GenerationTPS: perSecond(s.Tokens-1, s.DecodeTime), // the first token is the prompt's
	}
	if o.json {
		return o.a.printJSON(map[string]summaryEvent{"summary": e})
	}
	fmt.Fprintln(o.a.stdout, s.Text[o.printed:])
	_, err := fmt.Fprintf(o.a.stderr, "%d tokens of prompt in %.0f ms (%.1f/s), %d generated at %.1f/s, stopped by %s; loaded in %.0f ms\n",
		e.PromptTokens, e.PromptMS, e.PromptTPS, e.GeneratedTokens, e.GenerationTPS, e.Stop, e.LoadMS)
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond is a rate, 0 where there was nothing to count or no time.
func perSecond(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
