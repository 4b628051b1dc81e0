package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

const (
	// maxConfidences is the maximum number of confidences of a [Balance] and a [File].
	maxConfidences = 1024
	maxTokens      = 1 << 52 // of a balance: sums up to here are exact in float64
)

// Answer is the contribution of one answer to a [Balance].
type Answer struct {
	Tokens      int       `json:"tokens"`      // that were shown; the end token is not counted
	Escalations int       `json:"escalations"` // that had a reply, about the end token too
	Confidences []float32 `json:"confidences"` // of all decisions, in the order of the text
}

// Balance is what a budget has spent in the answers so far, and the confidences that were seen last: the state that
// the decisions of the next answer start from. Routers made with the same Balance share it.
//
// Answers that run at the same time all start from the state before them, so their sum may exceed the budget for a
// time: the next answers escalate less until it is kept again.
//
// The zero value is the state before the first answer, of the budget of the first router. All methods are safe for
// concurrent use. The JSON form is
//
//	{"budget": 0.07, "tokens": 1000, "escalations": 68, "unspent": 2,
//	 "recent": [{"tokens": 12, "escalations": 1}, …], "confidences": [0.98, …]}
//
// with what verified answers have left, at most 100, the last answers, up to [maxWindow], and up to [maxConfidences]
// confidences, the oldest first.
type Balance struct {
	mu sync.Mutex
	s  balanceState
}

// NewBalance returns the state before the first answer for a budget, a share of tokens within 0 to 1.
func NewBalance(budget float64) *Balance {
	return &Balance{s: balanceState{Total: Total{Budget: budget}}}
}

// Total is the sum of all answers of a [Balance].
type Total struct {
	Budget      float64 `json:"budget"`      // share of tokens; 0: no router was made with the balance
	Tokens      int     `json:"tokens"`      // as in [Answer]
	Escalations int     `json:"escalations"` // as in [Answer]
}

// Share returns the escalations per token, 0 before the first token.
func (t Total) Share() float64 { return float64(t.Escalations) / float64(max(t.Tokens, 1)) }

// spending is what answers brought and spent.
type spending struct {
	Tokens      int `json:"tokens"`
	Escalations int `json:"escalations"`
}

// balanceState is the content of a [Balance].
type balanceState struct {
	Total
	Unspent     float64    `json:"unspent"`     // see [account]
	Recent      []spending `json:"recent"`      // of the last answers, the oldest first
	Confidences []float32  `json:"confidences"` // the oldest first
}

// Total returns the sums so far.
func (b *Balance) Total() Total {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.s.Total
}

// Add adds an answer. Invalid counts change nothing; confidences outside of 0 to 1 are left out.
func (b *Balance) Add(a Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.s
	if a.Tokens < 0 || a.Escalations < 0 ||
		a.Tokens > maxTokens-s.Tokens || a.Escalations > maxTokens-s.Escalations {
		return
	}
	spent := spending{a.Tokens, a.Escalations}
	s.Tokens, s.Escalations, s.Unspent = s.Tokens+a.Tokens, s.Escalations+a.Escalations, s.afterAnswer(spent)
	recent := append(slices.Clone(s.Recent), spent)
	s.Recent = recent[max(0, len(recent)-maxWindow):]
	all := slices.DeleteFunc(slices.Concat(s.Confidences, a.Confidences), isInvalidConfidence)
	s.Confidences = slices.Clone(all[max(0, len(all)-maxConfidences):])
}

func isInvalidConfidence(c float32) bool { return !(c >= 0 && c <= 1) }

// Clone returns a balance with the same content, independent of b.
func (b *Balance) Clone() *Balance { return &Balance{s: b.copyState()} }

func (b *Balance) copyState() balanceState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.s
	s.Recent, s.Confidences = slices.Clone(s.Recent), slices.Clone(s.Confidences)
	return s
}

// adoptBudget sets the budget of the balance. It refuses a balance of another budget.
func (b *Balance) adoptBudget(budget float64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.s.Budget {
	case budget:
		return nil
	case 0:
		b.s.Budget, b.s.Unspent = budget, 0
		for _, a := range b.s.Recent {
			b.s.Unspent = b.s.afterAnswer(a)
		}
		return nil
	}
	return fmt.Errorf("balance: it is of a budget of %v, not of %v: give that budget, or begin a new balance",
		b.s.Budget, budget)
}

// MarshalJSON implements [json.Marshaler].
func (b *Balance) MarshalJSON() ([]byte, error) {
	s := b.copyState()
	s.Recent, s.Confidences = slices.Grow(s.Recent, 1), slices.Grow(s.Confidences, 1) // no null
	return json.Marshal(s)
}

// UnmarshalJSON implements [json.Unmarshaler]. It refuses unknown fields and values out of range; on an error nothing
// changes.
func (b *Balance) UnmarshalJSON(text []byte) error {
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return errors.New("balance: it is null")
	}
	var s balanceState
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	if err := s.validateState(); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s = s
	return nil
}

func (s *balanceState) validateState() error {
	if !(s.Budget >= 0 && s.Budget <= 1) {
		return fmt.Errorf("budget: %v is not within 0 to 1", s.Budget)
	}
	if !(math.Abs(s.Unspent) <= maxTokens) || s.Unspent > savings {
		return fmt.Errorf("unspent: %v is not within -2^52 to %d", s.Unspent, savings)
	}
	if len(s.Recent) > maxWindow {
		return fmt.Errorf("recent: there are %d answers, at most %d are possible", len(s.Recent), maxWindow)
	}
	for _, a := range append(s.Recent, spending{s.Tokens, s.Escalations}) {
		if !isTokenCount(a.Tokens) || !isTokenCount(a.Escalations) {
			return fmt.Errorf("%d tokens with %d escalations: both must be within 0 to 2^52", a.Tokens, a.Escalations)
		}
	}
	return validateConfidences(s.Confidences)
}

func isTokenCount(n int) bool { return n >= 0 && n <= maxTokens }

// validateConfidences returns an error if a confidence in a list is out of range.
func validateConfidences(all []float32) error {
	if len(all) > maxConfidences {
		return fmt.Errorf("confidences: there are %d, at most %d are possible", len(all), maxConfidences)
	}
	if i := slices.IndexFunc(all, isInvalidConfidence); i >= 0 {
		return fmt.Errorf("confidences[%d]: %v is not within 0 to 1", i, all[i])
	}
	return nil
}

const (
	// fewest is how many confidences must have been seen before they are compared with a calibration.
	fewest = 200
	// distance is the largest distance of two samples that may be of one distribution. Two of 200 and 1,000 independent
	// confidences differ by 0.17 once in 10,000 times; those of one answer depend on each other, so it is more.
	distance = 0.25
)

// distributionsDiffer reports whether the confidences seen last are of another distribution than expected ones,
// ascending: whether the share of those below a value differs by more than distance for any value (Kolmogorov and
// Smirnov).
func distributionsDiffer(seen, expected []float32) bool {
	if len(seen) < fewest {
		return false
	}
	seen = slices.Clone(seen[max(0, len(seen)-2*fewest):])
	slices.Sort(seen)
	share := func(of []float32, below float32) float64 {
		i, _ := slices.BinarySearch(of, below)
		return float64(i) / float64(len(of))
	}
	return slices.ContainsFunc(slices.Concat(seen, expected), func(v float32) bool {
		return math.Abs(share(seen, v)-share(expected, v)) > distance
	})
}
