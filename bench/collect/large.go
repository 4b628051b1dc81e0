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
	// generateTokens calls yield with the tokens that the model chooses after context, in order, up to most of them.
	// It ends when yield returns false.
	generateTokens(ctx context.Context, context []int32, most int, s terms.Sampling, yield func(id int32) bool) error
	closeModel()
}

// largeChoice is the large model's choice at a position.
type largeChoice struct {
	token          int32
	logProb, given float32 // of its choice, and of the token in the text; NaN if unknown
}

// largeModel is a model that can also read a text.
type largeModel interface {
	model
	// readChoices returns the model's choices at the positions of text from from on.
	readChoices(ctx context.Context, text []int32, from int) ([]largeChoice, error)
}

// localModel is a model in this process.
type localModel struct{ s *engine.Session }

func (l localModel) closeModel() {}

func (l localModel) generateTokens(
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

func (l localModel) readChoices(ctx context.Context, text []int32, from int) (all []largeChoice, err error) {
	err = l.s.Read(ctx, text, from, 0, func(s engine.Seen) error {
		all = append(all, largeChoice{s.Choice, s.LogProb, s.Given})
		return nil
	})
	return all, err
}

// remoteModel is a model behind a gateway.
type remoteModel struct {
	far   engine.Far
	cloud engine.Cloud // of the texts that continue the last text that was read; nil: none yet
	end   func()
}

func (r *remoteModel) closeModel() {
	if r.cloud != nil {
		r.end()
		r.cloud = nil
	}
}

// openSession makes an empty session, so that the audit covers all requested positions.
func (r *remoteModel) openSession(ctx context.Context) error {
	r.closeModel()
	cloud, end, err := r.far.Session(ctx)
	if err == nil {
		r.cloud, r.end = retryingCloud{cloud}, end
	}
	return err
}

func (r *remoteModel) generateTokens(
	ctx context.Context, context []int32, most int, s terms.Sampling, yield func(id int32) bool,
) error {
	if r.cloud == nil {
		if err := r.openSession(ctx); err != nil {
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

func (r *remoteModel) readChoices(ctx context.Context, text []int32, from int) ([]largeChoice, error) {
	if err := r.openSession(ctx); err != nil {
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
	all := make([]largeChoice, len(text)-from)
	for i := range all {
		all[i] = largeChoice{text[from+i], unknown, unknown}
	}
	for _, f := range a.Audit {
		all[f.Pos-from] = largeChoice{f.Token, f.LogProb, unknown}
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

// retryingCloud repeats a question if its answer fails: a question to the cloud may be asked any number of times.
type retryingCloud struct{ engine.Cloud }

func (p retryingCloud) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
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
