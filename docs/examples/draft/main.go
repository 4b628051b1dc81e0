// Command draft decodes with scripts in place of models: for trying routers, clouds and schedules without weights. A
// token is a letter.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

const (
	small = "the pilot fosh swims ahead of the shirk" // what the small model says
	large = "the pilot fish swims ahead of the shark" // what the large one says
)

// script is a small model with a letter for each position, and a low confidence where the letter is wrong.
type script struct{}

func head(pos int) backend.Output {
	sure := 0.9
	if small[pos] != large[pos] {
		sure = 0.5
	}
	return backend.Output{Top: []backend.Candidate{ // logits whose LogSumExp is 0
		{ID: int32(small[pos]), Logit: float32(math.Log(sure))},
		{ID: int32('a'), Logit: float32(math.Log(0.95 - sure))},
	}}
}

func (script) Prefill(_ context.Context, prompt []int32) (backend.Output, error) {
	return head(len(prompt)), nil
}
func (script) Settle(...draft.ID) {}
func (script) Drop(...draft.ID)   {}
func (script) Room() int          { return 1000 }
func (script) Extend(_ context.Context, nodes []draft.Node) (heads []backend.Output, err error) {
	for _, n := range nodes {
		heads = append(heads, head(min(n.Pos+1, len(small)-1))) // what follows the node
	}
	return heads, nil
}

// doubtful asks for every token that is less probable than 0.8.
type doubtful struct{}

func (doubtful) Decide(_ uint64, _ int, h *backend.Output) (confidence float32, ask bool, next uint64) {
	p := float32(math.Exp(float64(h.Top[0].Logit - h.LogSumExp)))
	return p, p < 0.8, 0
}

// slow is a large model that takes its time.
type slow struct{}

func (slow) Ask(_ context.Context, q draft.Question) (draft.Answer, error) {
	time.Sleep(20 * time.Millisecond)
	return draft.Answer{Reply: draft.Reply{Token: int32(large[len(q.Context)])}}, nil
}

func main() {
	d, err := draft.New(script{}, doubtful{}, slow{}, draft.Options{MaxTokens: len(small) - 1, Deadline: -1})
	if err != nil {
		log.Fatal(err)
	}
	sum, err := d.Decode(context.Background(), []int32{'t'}, func(e draft.Event) bool {
		if e.Token != nil {
			fmt.Printf("%c", e.Token.ID)
		}
		return true
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n%d of %d tokens are the large model's\n", sum.Cloud, sum.Tokens)
	log.Printf("%d answers were guessed; of %v that they took, %v cost nothing", sum.Hits, sum.Wait, sum.Hidden)
}
