package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestReadAt: prompts take the time of their side, the large model's text its paces, and asks none of their own.
func TestReadAt(t *testing.T) {
	const ms = time.Millisecond
	prompt := []int32{1, 2, 3, 4}
	ask := Ask{Token: 9, Queue: ms, Cloud: ms, Took: 3 * ms}
	r := &Recording{Header: Header{RTT: 100 * ms, CloudPace: 10 * ms}, Answers: []*Answer{
		{Mode: LocalMode, Prompt: prompt, Prefill: 7 * time.Second, Took: 9 * time.Second},
		{Mode: CloudMode, Prompt: prompt, IDs: []int32{5, 6}},
		{Mode: "serial", Prompt: prompt, Asks: []Ask{ask}},
	}}
	r.ReadAt(1000, 100)
	assert.Equal(t, []*Answer{
		{Mode: LocalMode, Prompt: prompt, Prefill: 4 * ms, Took: 9 * time.Second},
		{Mode: CloudMode, Prompt: prompt, IDs: []int32{5, 6}, Prefill: 40 * ms, Took: 160 * ms},
		{Mode: "serial", Prompt: prompt, Prefill: 4 * ms, Asks: []Ask{{Token: 9}}},
	}, r.Answers)
}

// TestAsked: the places of tokens that were asked for, without texts that were sent early.
func TestAsked(t *testing.T) {
	a := &Answer{Prompt: []int32{1, 2}, Tokens: []int32{5, 6}, Parents: []int32{0, 1},
		Asks: []Ask{{Node: 0}, {Node: 1, Warm: true}, {Node: 2}}}
	assert.Equal(t, map[int]bool{0: true, 2: true}, a.Asked())
}
