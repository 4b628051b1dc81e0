package speed

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// measurement runs prompts, generations and rows through an engine. The context before them is evaluated once for each
// depth, and kept.
type measurement struct {
	e         *engine.Engine
	r         *rand.Rand
	prefix    []int32                 // the text before the measured part, as long as needed so far
	sessions  map[int]*engine.Session // by depth
	passes    map[int]*Passes         // by depth, for rows
	memory    [][]byte                // for measuring the bandwidth
	bandwidth float64                 // the last one
	// measures the bandwidth, in bytes per second
	read func(threads int, memory ...[]byte) float64
	free func() error // releases memory
}

func newMeasurement(e *engine.Engine) *measurement {
	return &measurement{
		e: e, r: rand.New(rand.NewPCG(0, 0)), sessions: map[int]*engine.Session{}, passes: map[int]*Passes{},
		free: func() error { return nil }, read: cpu.ReadBandwidth,
	}
}

func (m *measurement) prefixTokens(n int) []int32 {
	for len(m.prefix) < n {
		m.prefix = append(m.prefix, m.randomToken())
	}
	return m.prefix[:n:n]
}

func (m *measurement) randomToken() int32 { return m.r.Int32N(int32(m.e.Model().Config().Vocab)) }

// warmUp runs each combination briefly, so that none of them includes work that is done once.
func (m *measurement) warmUp(ctx context.Context, cells []Cell) error {
	const shortest = 32
	for _, c := range cells {
		c.Prompt, c.Decode = min(c.Prompt, shortest), min(c.Decode, shortest)
		if _, err := m.measureCell(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) measureCell(ctx context.Context, c Cell) (s Sample, err error) {
	if c.Prompt > 0 {
		run, err := m.generateTokens(ctx, c.Depth, m.promptTokens(c.Depth, c.Prompt), 1)
		if err != nil {
			return s, err
		}
		s.PromptTPS = tokensPerSecond(run.PromptTokens-run.ReusedTokens, run.PromptTime)
	}
	if c.Decode > 0 {
		tokens := c.Decode + 1 // the first token is the prompt's
		run, err := m.generateTokens(ctx, c.Depth, m.prefixTokens(c.contextTokens()), tokens)
		if err != nil {
			return s, err
		}
		s.GenerationTPS = tokensPerSecond(c.Decode, run.DecodeTime)
	}
	if c.Rows > 0 {
		took, err := m.timeRows(ctx, c)
		if err != nil {
			return s, err
		}
		s.RowsTPS = tokensPerSecond(c.Rows, took)
	}
	return s, nil
}

func (m *measurement) promptTokens(depth, prompt int) []int32 {
	ids := m.prefixTokens(depth)
	for range prompt {
		ids = append(ids, m.randomToken())
	}
	return ids
}

// generateTokens evaluates a prompt in the session of a depth, which contains the context already, and generates
// tokens.
func (m *measurement) generateTokens(
	ctx context.Context, depth int, prompt []int32, tokens int,
) (sum engine.Summary, err error) {
	s := m.sessions[depth]
	if s == nil {
		if s, err = m.e.NewSession(); err != nil {
			return sum, err
		}
		m.sessions[depth] = s
		if depth > 0 {
			if err := m.generateInSession(ctx, s, m.prefixTokens(depth), 1); err != nil {
				return sum, err
			}
		}
	}
	err = m.generateInSession(ctx, s, prompt, tokens)
	return s.Summary(), err
}

func (m *measurement) generateInSession(ctx context.Context, s *engine.Session, ids []int32, tokens int) error {
	for _, err := range s.Generate(ctx, ids, terms.Settings{MaxTokens: tokens, IgnoreEnd: true, Lookup: -1}) {
		if err != nil {
			return err
		}
	}
	if s.Summary().Tokens != tokens {
		return errors.New("bench: the generation ended early")
	}
	return nil
}

// rowCalls is the number of forward passes in a sample of rows; the mean counts.
const rowCalls = 8

func (m *measurement) timeRows(ctx context.Context, c Cell) (time.Duration, error) {
	passes := m.passes[c.contextTokens()]
	if passes == nil {
		var err error
		passes, err = NewPasses(ctx, m.e.Model(), m.kvConfig().Type, c.contextTokens(), MostRows)
		if err != nil {
			return 0, err
		}
		m.passes[c.contextTokens()] = passes
	}
	took, err := passes.Time(ctx, c.Rows, c.Rows, rowCalls)
	return took / rowCalls, err
}

func (m *measurement) kvBytes() int64 {
	for _, s := range m.sessions {
		return s.KVLimit()
	}
	return 0
}

// kvConfig returns the shape of the KV store of a session.
func (m *measurement) kvConfig() backend.KVConfig {
	c := m.e.Model().KVConfig(m.e.Context(), gguf.F32)
	if m.kvBytes() != c.Bytes() {
		c.Type = gguf.F16
	}
	return c
}

func (m *measurement) kvType() string { return strings.ToLower(m.kvConfig().Type.String()) }

// measureBandwidth measures the bandwidth of memory for the last sample of r. If that had no generation, it keeps the
// bandwidth of the sample before, since nothing is compared with it.
func (m *measurement) measureBandwidth(r *Report) {
	if m.bandwidth == 0 || r.DecodedTokens > 0 {
		m.bandwidth = m.read(r.Threads, m.memory...) / 1e9
	}
	r.Samples[len(r.Samples)-1].Bandwidth = m.bandwidth
}
