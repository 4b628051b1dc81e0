package draft_test

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// counter is a small model that counts, but after a nine it guesses 99.
type counter struct{}

func (counter) Prefill(_ context.Context, prompt []int32) (backend.Output, error) {
	return after(prompt[len(prompt)-1]), nil
}

func (counter) Extend(_ context.Context, nodes []draft.Node) (heads []backend.Output, err error) {
	for _, n := range nodes {
		heads = append(heads, after(n.Token))
	}
	return heads, nil
}

func (counter) Settle(...draft.ID) {}
func (counter) Drop(...draft.ID)   {}
func (counter) Room() int          { return 100 }

// after returns the two most probable tokens after a number.
func after(number int32) backend.Output {
	next, other := backend.Candidate{ID: number + 1}, backend.Candidate{ID: 99}
	if number%10 == 9 {
		next.Logit, other.Logit = logOf(0.4), logOf(0.6)
	} else {
		next.Logit, other.Logit = logOf(0.95), logOf(0.05)
	}
	top := []backend.Candidate{next, other}
	slices.SortFunc(top, func(a, b backend.Candidate) int { return cmp.Compare(b.Logit, a.Logit) })
	return backend.Output{Top: top}
}

func logOf(p float64) float32 { return float32(math.Log(p)) }

// careful escalates where the small model gives its token a probability below 0.9.
type careful struct{}

func (careful) Decide(_ uint64, _ int, head *backend.Output) (confidence float32, escalate bool, next uint64) {
	confidence = float32(math.Exp(float64(head.Top[0].Logit)))
	return confidence, confidence < 0.9, 0
}

// teacher is a large model that counts without mistakes.
type teacher struct{}

func (teacher) Ask(_ context.Context, q draft.Question) (draft.Answer, error) {
	return draft.Answer{Reply: terms.Reply{Token: q.Context[len(q.Context)-1] + 1}}, nil
}

// This example decodes with a small model that counts up to nine, and a large one that is asked for the tens.
func Example() {
	d, err := draft.New(counter{}, careful{}, teacher{}, draft.Options{MaxTokens: 4, Deadline: -1})
	if err != nil {
		log.Fatal(err)
	}
	_, err = d.Decode(context.Background(), []int32{7}, func(e draft.Event) bool {
		if t := e.Token; t != nil {
			fmt.Println(t.ID, t.Origin)
		}
		return true
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 8 edge
	// 9 edge
	// 10 cloud
	// 11 edge
}
