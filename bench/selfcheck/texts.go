package selfcheck

import (
	"context"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Text is a text that a model decodes on the GPU and on the exact CPU, the best token each time. Where they choose
// different tokens, the GPU goes on from the CPU's.
type Text struct {
	Model  string  `json:"model"`
	Tokens int     `json:"tokens"`
	Differ int     `json:"differ"` // tokens that are not the CPU's
	Gap    float64 `json:"gap"`    // the largest difference of the CPU's logits of two such tokens
	Off    float64 `json:"off"`    // as in Check, the largest of all tokens' logits
	Error  string  `json:"error,omitempty"`
}

// textLength is the number of tokens that are decoded, and the length of the prompt before them.
const textLength, promptLength = 64, 24

// Failed reports whether the GPU failed, chose a token that the CPU finds clearly worse, or was further off than the
// rounding of keys and values to halves explains.
func (t Text) Failed() bool { return t.Error != "" || t.Gap > 0.02 || !(t.Off <= 1e-3) }

func (c *checker) checkTexts(ctx context.Context) error {
	for _, m := range c.o.Models {
		t, err := c.checkText(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		c.r.Texts = append(c.r.Texts, t)
	}
	return nil
}

func (c *checker) checkText(ctx context.Context, m Model) (t Text, err error) {
	t.Model = m.Name
	cpu, err := host.New(host.Options{Exact: true})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	ref, err := startText(m.File, cpu, promptLength+textLength)
	if err != nil {
		return t, err
	}
	d, err := gpu.New(c.p, gpu.Options{Mapped: m.File.Mappings()})
	if err != nil {
		t.Error = err.Error()
		return t, nil
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	got, err := startText(m.File, d, promptLength+textLength)
	if err == nil {
		err = t.compare(ctx, got, ref)
	}
	t.Error, err = errorText(ctx, err)
	return t, err
}

func (t *Text) compare(ctx context.Context, got, ref *text) error {
	next := ref.prompt()
	for t.Tokens < textLength {
		want, err := ref.feed(ctx, next)
		if err != nil {
			return fmt.Errorf("on the CPU: %w", err)
		}
		have, err := got.feed(ctx, next)
		if err != nil {
			return err
		}
		best, chosen := want.Top[0].ID, have.Top[0].ID
		if best != chosen {
			t.Differ++
			t.Gap = max(t.Gap, float64(want.Logits[best]-want.Logits[chosen]))
		}
		t.Off = max(t.Off, relativeError(have.Logits, want.Logits))
		next = []int32{best}
		t.Tokens++
	}
	return nil
}

// text is a text of a model on a device.
type text struct {
	m *transformer.Model
	c *transformer.Cache
}

func startText(f *gguf.File, d backend.Device, slots int) (*text, error) {
	m, err := transformer.Load(f, d)
	if err != nil {
		return nil, err
	}
	c, err := m.NewCache(slots, gguf.F16)
	return &text{m, c}, err
}

// prompt returns tokens that every vocabulary has.
func (t *text) prompt() []int32 { return t.tokens(promptLength) }

func (t *text) tokens(n int) (ids []int32) {
	for i := range n {
		ids = append(ids, int32((1+31*i)%min(t.m.Config().Vocab, 256)))
	}
	return ids
}

// feed evaluates tokens after the text, and returns the head after the last one.
func (t *text) feed(ctx context.Context, ids []int32) (*backend.Output, error) {
	rows, err := t.c.Extend(ids)
	if err != nil {
		return nil, err
	}
	out := make([]backend.Output, 1)
	want := backend.Want{Rows: []int{len(ids) - 1}, K: 1, Logits: true}
	if err := t.m.Forward(ctx, t.c.KV(), rows, out, want); err != nil {
		return nil, err
	}
	return &out[0], nil
}
