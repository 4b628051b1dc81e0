package main

import (
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// runOutput prints what `pilotfish run` generates.
type runOutput struct {
	a       *app
	json    bool
	load    time.Duration
	session *engine.Session
	print   func(engine.Token) error
	ids     []int32
	printed int // bytes of text
}

func newRunOutput(a *app, json bool, load time.Duration, s *engine.Session) *runOutput {
	return &runOutput{a: a, json: json, load: load, session: s, print: newTokenPrinter(a)}
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

	*RoutedEvent // with a cloud only
}

// RoutedEvent is what a summary says of the cloud. (It has a capital because encoding/json sets only such embedded fields.)
type RoutedEvent struct {
	CloudTokens int     `json:"cloud_tokens"`
	Timeouts    int     `json:"edge_timeout_tokens"`
	Escalations int     `json:"escalations"`
	Hits        int     `json:"hits"`
	Asks        int     `json:"asks"`
	Drafted     int     `json:"drafted"`
	Wasted      int     `json:"wasted"`
	Audited     int     `json:"audited"` // edge tokens that the cloud compared with its own choice
	Missed      int     `json:"missed"`  // of these, those where it would have said something else
	BytesUp     int     `json:"bytes_up"`
	BytesDown   int     `json:"bytes_down"`
	WaitMS      float64 `json:"wait_ms"` // what serial decoding would have waited
	HiddenMS    float64 `json:"hidden_ms"`
	ExposedMS   float64 `json:"exposed_ms"`
}

// token prints one token.
func (o *runOutput) token(t engine.Token) error {
	o.ids = append(o.ids, t.ID)
	if o.json {
		return o.a.printJSON(tokenEvent{Pos: t.Pos, ID: t.ID, Text: t.Text, Origin: t.Origin, Confidence: t.Confidence})
	}
	o.printed += len(t.Text)
	return o.print(t)
}

// finish prints the rest of the text and what it took. Nothing is printed where not even the prompt was run.
func (o *runOutput) finish() error {
	s := o.session.Summary()
	if s.PromptTime == 0 {
		return nil
	}
	if s.Stop == "" {
		s.Stop = "interrupted"
	}
	e := summaryEvent{
		Tokens: append([]int32{}, o.ids...), Text: s.Text, Stop: s.Stop, PromptTokens: s.PromptTokens, GeneratedTokens: s.Tokens,
		LoadMS: ms(o.load), PromptMS: ms(s.PromptTime), DecodeMS: ms(s.DecodeTime), KVBytes: o.session.KVBytes(),
		PromptTPS:     perSecond(s.PromptTokens, s.PromptTime),
		GenerationTPS: perSecond(s.Tokens-1, s.DecodeTime), // the first token is the prompt's
	}
	if r := o.session.Routing(); r.Tokens > 0 {
		e.RoutedEvent = &RoutedEvent{
			CloudTokens: r.Cloud, Timeouts: r.Timeouts, Escalations: r.Escalations, Hits: r.Hits, Asks: r.Asks, Drafted: r.Drafted,
			Wasted: r.Wasted, Audited: r.Audited, Missed: r.Missed, BytesUp: r.BytesUp, BytesDown: r.BytesDown, WaitMS: ms(r.Wait), HiddenMS: ms(r.Hidden), ExposedMS: ms(r.Exposed),
		}
	}
	if o.json {
		return o.a.printJSON(map[string]summaryEvent{"summary": e})
	}
	fmt.Fprintln(o.a.stdout, s.Text[o.printed:])
	if r := e.RoutedEvent; r != nil {
		fmt.Fprintf(o.a.stderr, "%d tokens from the cloud, %d for want of an answer from the edge; %.0f of %.0f ms waiting were hidden; %d bytes up, %d down\n",
			r.CloudTokens, r.Timeouts, r.HiddenMS, r.WaitMS, r.BytesUp, r.BytesDown)
		if r.Audited > 0 {
			fmt.Fprintf(o.a.stderr, "audit: of %d tokens that were not asked for, the cloud would have chosen %d otherwise (%.1f%%)\n",
				r.Audited, r.Missed, 100*float64(r.Missed)/float64(r.Audited))
		}
	}
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
