package speed

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
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

// before returns the first n tokens of the text before the measured part.
func (m *measurement) before(n int) []int32 {
	for len(m.prefix) < n {
		m.prefix = append(m.prefix, m.id())
	}
	return m.prefix[:n:n]
}

func (m *measurement) id() int32 { return m.r.Int32N(int32(m.e.Model().Config().Vocab)) }

// warm runs each combination briefly, so that none of them includes work that is done once.
func (m *measurement) warm(ctx context.Context, cells []Cell) error {
	const shortest = 32
	for _, c := range cells {
		c.Prompt, c.Decode = min(c.Prompt, shortest), min(c.Decode, shortest)
		if _, err := m.sample(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// sample measures one combination once.
func (m *measurement) sample(ctx context.Context, c Cell) (s Sample, err error) {
	if c.Prompt > 0 {
		run, err := m.generate(ctx, c.Depth, m.following(c.Depth, c.Prompt), 1)
		if err != nil {
			return s, err
		}
		s.PromptNS = run.PromptTime.Nanoseconds()
		s.PromptTPS = rate(run.PromptTokens-run.ReusedTokens, s.PromptNS)
	}
	if c.Decode > 0 {
		run, err := m.generate(ctx, c.Depth, m.before(c.context()), c.Decode+1) // the first token is the prompt's
		if err != nil {
			return s, err
		}
		s.GenerationNS = run.DecodeTime.Nanoseconds()
		s.GenerationTPS = rate(c.Decode, s.GenerationNS)
	}
	if c.Rows > 0 {
		if s.RowsNS, err = m.rows(ctx, c); err != nil {
			return s, err
		}
	}
	return s, nil
}

// following returns random tokens for a prompt after the context of a depth.
func (m *measurement) following(depth, prompt int) []int32 {
	ids := m.before(depth)
	for range prompt {
		ids = append(ids, m.id())
	}
	return ids
}

// generate evaluates a prompt in the session of a depth, which contains the context already, and generates tokens.
func (m *measurement) generate(
	ctx context.Context, depth int, prompt []int32, tokens int,
) (sum engine.Summary, err error) {
	s := m.sessions[depth]
	if s == nil {
		if s, err = m.e.NewSession(); err != nil {
			return sum, err
		}
		m.sessions[depth] = s
		if depth > 0 {
			if err := m.run(ctx, s, m.before(depth), 1); err != nil {
				return sum, err
			}
		}
	}
	err = m.run(ctx, s, prompt, tokens)
	return s.Summary(), err
}

// run generates tokens in a session.
func (m *measurement) run(ctx context.Context, s *engine.Session, ids []int32, tokens int) error {
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

// rows returns the nanoseconds of a forward pass.
func (m *measurement) rows(ctx context.Context, c Cell) (int64, error) {
	passes := m.passes[c.context()]
	if passes == nil {
		kind := gguf.F16
		if m.kvType() == string(engine.KVF32) {
			kind = gguf.F32
		}
		var err error
		if passes, err = NewPasses(ctx, m.e.Model(), kind, c.context(), MostRows); err != nil {
			return 0, err
		}
		m.passes[c.context()] = passes
	}
	took, err := passes.Time(ctx, c.Rows, c.Rows, rowCalls)
	return took.Nanoseconds() / rowCalls, err
}

// kvBytes returns the memory of the KV cache of a full context.
func (m *measurement) kvBytes() int64 {
	for _, s := range m.sessions {
		return s.KVLimit()
	}
	return 0
}

func (m *measurement) kvType() string {
	if m.kvBytes() == m.e.Model().KVConfig(m.e.Context(), gguf.F32).Bytes() {
		return string(engine.KVF32)
	}
	return string(engine.KVF16)
}

// readMemory measures the bandwidth of memory for the last sample of r. If that had no generation, it keeps the
// bandwidth of the sample before, since nothing is compared with it.
func (m *measurement) readMemory(r *Report) {
	if m.bandwidth == 0 || r.DecodedTokens > 0 {
		m.bandwidth = m.read(r.Threads, m.memory...) / 1e9
	}
	r.Samples[len(r.Samples)-1].Bandwidth = m.bandwidth
}
