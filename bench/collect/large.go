package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// model is one of the two models, for one text at a time.
type model interface {
	// follow calls yield with the tokens that the model chooses after context, in order, up to most of them. It ends
	// when yield returns false.
	follow(ctx context.Context, context []int32, most int, s terms.Sampling, yield func(id int32) bool) error
	close()
}

// choice is the large model's choice at a position.
type choice struct {
	token          int32
	logProb, given float32 // of its choice, and of the token in the text; NaN if unknown
}

// largeModel is a model that can also read a text.
type largeModel interface {
	model
	// read returns the model's choices at the positions of text from from on.
	read(ctx context.Context, text []int32, from int) ([]choice, error)
}

// local is a model in this process.
type local struct{ s *engine.Session }

func (l local) close() {}

func (l local) follow(
	ctx context.Context, context []int32, most int, s terms.Sampling, yield func(id int32) bool,
) error {
	for t, err := range l.s.Generate(ctx, context, terms.Settings{MaxTokens: most, IgnoreEnd: true}.With(s)) {
		if err != nil {
			return err
		}
		if !yield(t.ID) {
			break
		}
	}
	return nil
}

func (l local) read(ctx context.Context, text []int32, from int) (all []choice, err error) {
	err = l.s.Read(ctx, text, from, 0, func(s engine.Seen) error {
		all = append(all, choice{s.Choice, s.LogProb, s.Given})
		return nil
	})
	return all, err
}

// remote is a model behind a gateway.
type remote struct {
	far   engine.Far
	cloud engine.Cloud // of the texts that continue the last text that was read; nil: none yet
	end   func()
}

func (r *remote) close() {
	if r.cloud != nil {
		r.end()
		r.cloud = nil
	}
}

// begin makes an empty session, so that the audit covers all requested positions.
func (r *remote) begin(ctx context.Context) error {
	r.close()
	cloud, end, err := r.far.Session(ctx)
	if err == nil {
		r.cloud, r.end = patient{cloud}, end
	}
	return err
}

func (r *remote) follow(
	ctx context.Context, context []int32, most int, s terms.Sampling, yield func(id int32) bool,
) error {
	if r.cloud == nil {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	text := append([]int32(nil), context...)
	for range most {
		a, err := r.cloud.Ask(ctx, engine.CloudQuestion{Context: text, Sampling: s})
		if err != nil {
			return err
		}
		if !yield(a.Token) {
			break
		}
		text = append(text, a.Token)
	}
	return nil
}

func (r *remote) read(ctx context.Context, text []int32, from int) ([]choice, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	a, err := r.cloud.Ask(ctx, engine.CloudQuestion{Context: text, AuditFrom: from})
	if err != nil {
		return nil, err
	}
	if n := len(text) - from; a.Audited != n {
		return nil, fmt.Errorf("the gateway's model audited %d of %d tokens: its audit is not exact", a.Audited, n)
	}
	unknown := float32(math.NaN())
	all := make([]choice, len(text)-from)
	for i := range all {
		all[i] = choice{text[from+i], unknown, unknown}
	}
	for _, f := range a.Audit {
		all[f.Pos-from] = choice{f.Token, f.LogProb, unknown}
	}
	return all, nil
}

const (
	attempts     = 5
	answerTime   = 2 * time.Minute        // of one attempt: a whole text may have to be computed
	firstPause   = 500 * time.Millisecond // before the second attempt, doubled before each further one
	longestPause = 4 * time.Second
)

var errSilent = errors.New("no answer in two minutes")

// patient repeats a question if its answer fails: a question to the cloud may be asked any number of times.
type patient struct{ engine.Cloud }

func (p patient) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	for n := 1; ; n++ {
		one, cancel := context.WithTimeoutCause(ctx, answerTime, errSilent)
		a, err := p.Cloud.Ask(one, q)
		if context.Cause(one) == errSilent && err != nil {
			err = errSilent
		}
		cancel()
		if ctx.Err() != nil && err != nil {
			return a, context.Cause(ctx)
		}
		if err == nil {
			return a, nil
		}
		if n == attempts {
			return a, fmt.Errorf("the large model was asked %d times: %w; repeat the command to continue", n, err)
		}
		if err := retry.Wait(ctx, retry.Delay(n, firstPause, longestPause)); err != nil {
			return a, err
		}
	}
}
