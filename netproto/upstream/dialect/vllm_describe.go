package dialect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Describe implements dialect.Engine. It finds out which endpoint is available, how many probabilities the server
// returns, and whether it can audit exactly.
func (e *VLLM) Describe(ctx context.Context, v Vocabulary, salt string) (f Facts, err error) {
	m, err := findModel(ctx, e.c, e.model)
	if err != nil {
		return f, err
	}
	var version struct{ Version string }
	if err := wrapAbsent(e.c.Get(ctx, "/version", &version)); err != nil && !errors.Is(err, ErrAbsent) {
		return f, err
	}
	e.model = m.ID
	f = Facts{Dialect: "vllm", Version: version.Version, Model: m.ID, Audit: netproto.NoAudit}
	if m.MaxLength > 1 {
		f.MaxContext = m.MaxLength - 1
	}
	if err := e.chooseEndpoint(ctx, v, salt); err != nil {
		return f, err
	}
	if f.Choices, err = e.probeMaxLogProbs(ctx, v, salt); err != nil {
		return f, err
	}
	if e.endpoint == (generateEndpoint{}) && e.givesRows(ctx, v, salt, cmp.Or(f.MaxContext, math.MaxInt)) {
		e.rows, f.Audit = true, netproto.ExactAudit
	}
	return f, nil
}

func (e *VLLM) chooseEndpoint(ctx context.Context, v Vocabulary, salt string) error {
	_, err := generateEndpoint{}.requestToken(ctx, e.c, newTrialAsk(v, salt, 4, 0), e.model, noRows)
	switch Status(err) {
	case 0:
		e.endpoint = generateEndpoint{}
		return err
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		_, err = e.endpoint.requestToken(ctx, e.c, newTrialAsk(v, salt, 4, 0), e.model, noRows)
	}
	return err
}

func newTrialAsk(v Vocabulary, salt string, n, k int) Ask {
	a := Ask{Name: fmt.Sprintf("pilotfish-%s-%d-%d", salt, n, k), K: k, Salt: salt}
	for i := range n {
		a.Context = append(a.Context, int32((i*i+7*i+1)%min(v.Size(), 256)))
	}
	return a
}

// probeMaxLogProbs returns the maximum number of probabilities that the server returns (--max-logprobs).
func (e *VLLM) probeMaxLogProbs(ctx context.Context, v Vocabulary, salt string) (int, error) {
	for _, k := range []int{netproto.MaxK, 128, 64, 50, 40, 32, 20, 10, 5, 1} {
		_, err := e.endpoint.requestToken(ctx, e.c, newTrialAsk(v, salt, 4, min(k, v.Size())), e.model, noRows)
		switch Status(err) {
		case http.StatusBadRequest:
			continue
		case 0:
			if err != nil {
				return 0, err
			}
			return k, nil
		}
		return 0, err
	}
	return 0, nil
}

// givesRows reports whether a question with a cached prefix gets rows for the computed part alone, and whether these
// equal the rows of a question without cache. Versions of the server that return all rows return uninitialised memory
// for the cached ones, or compute the whole context again.
func (e *VLLM) givesRows(ctx context.Context, v Vocabulary, salt string, longest int) bool {
	const most = 300 // two blocks of the prefix cache, of 16 to 128 tokens each, and a part of a third
	n := min(most, longest)
	a := newTrialAsk(v, salt, n, 0)
	first, err := e.endpoint.requestToken(ctx, e.c, a, e.model, newRows)
	if err != nil {
		return false
	}
	again, err := e.endpoint.requestToken(ctx, e.c, a, e.model, newRows)
	if err != nil || len(again.Rows) < 1 || len(again.Rows) >= n-1 || len(first.Rows) < len(again.Rows) {
		return false
	}
	rest := first.Rows[len(first.Rows)-len(again.Rows):]
	return slices.EqualFunc(rest, again.Rows, func(a, b Row) bool { return a.Top[0].ID == b.Top[0].ID })
}
