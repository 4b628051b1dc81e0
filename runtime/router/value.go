package router

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Prices are the cost of a question to the cloud, and its gain if the small model's token would be wrong, all in one
// unit that the user chooses.
type Prices struct {
	Gain   float64 // of a right token in the place of a wrong one; above 0
	Second float64 // of a second that is waited with nothing to draft
	Byte   float64 // of a byte of payload, either way
	Ask    float64 // of a question
}

// Validate reports a price that is out of range.
func (p Prices) Validate() error {
	for _, v := range []struct {
		name  string
		value float64
	}{{"gain", p.Gain}, {"price of a second", p.Second}, {"price of a byte", p.Byte}, {"price of a question", p.Ask}} {
		if !(v.value >= 0) || math.IsInf(v.value, 1) {
			return fmt.Errorf("the %s is %v: it must be 0 or more", v.name, v.value)
		}
	}
	if p.Gain == 0 {
		return fmt.Errorf("the gain is 0, so that no question is worth anything: it must be above 0")
	}
	return nil
}

const (
	costBlock = 16  // positions that share one cost
	freshness = 0.2 // weight of the last answer in what answers take
	ageing    = 0.5 // of what answers took, kept after a block without one
)

// Cost is that of a question in the block of positions that begins with Pos.
type Cost struct {
	Pos  int     `json:"pos"`
	Cost float64 `json:"cost"`
}

// Took is the measured cost of one question.
type Took struct {
	Wait   float64 // seconds from the question until the answer, or until it was given up
	Hidden float64 // of these, spent on drafting that held
	Hit    bool    // the answer was on a branch of the draft tree
	Bytes  int     // of payload, both ways
}

// Costs estimates the cost of questions to the cloud along one text, for the value policy. A question is worth its cost
// if
//
//	(1 - confidence)·gain > cost      that is, confidence < 1 - cost/gain
//	cost = wait·(1 - hits·hidden)·price of a second + bytes·price of a byte + price of a question
//
// with running means of the wait, the share of hits, the share of a hit's wait that was hidden, and the bytes. The last
// answer has the weight of a fifth. Before the first answer only the price of the question is known. After a block
// without an answer, wait and bytes are halved, so that one slow answer does not stop all questions in the rest of a
// text.
//
// Costs come from a clock and decisions must be repeatable. So the cost is computed once for each block of 16
// positions, at its first decision on any branch, and does not change; with the recorded costs a run repeats exactly.
// Costs must be used by one goroutine only.
type Costs struct {
	prices                    Prices
	wait, hits, hidden, bytes float64 // running means
	known, hit                bool    // at least one question; at least one hit
	fresh                     bool    // there are questions since the last block
	blocks                    []Cost  // in rising order
	replayed, lacking         bool
}

// NewCosts returns the costs of a text that begins.
func NewCosts(p Prices) *Costs { return &Costs{prices: p} }

// ReplayCosts returns costs that repeat a record. Tell does not change them.
func ReplayCosts(record []Cost) (*Costs, error) {
	for i, c := range record {
		switch {
		case c.Pos < 0 || c.Pos%costBlock != 0 || i > 0 && c.Pos <= record[i-1].Pos:
			return nil, fmt.Errorf("costs[%d].pos is %d: positions rise, in steps of %d", i, c.Pos, costBlock)
		case !(c.Cost >= 0) || math.IsInf(c.Cost, 1):
			return nil, fmt.Errorf("costs[%d].cost is %v: it must be 0 or more", i, c.Cost)
		}
	}
	return &Costs{blocks: slices.Clone(record), replayed: true}, nil
}

// Tell adds the measured cost of a question.
func (c *Costs) Tell(t Took) {
	mean := func(m *float64, v float64, first bool) {
		if first {
			*m = v
		} else {
			*m += freshness * (v - *m)
		}
	}
	hit := 0.0
	if t.Hit {
		hit = 1
		share := 0.0
		if t.Wait > 0 {
			share = min(max(t.Hidden/t.Wait, 0), 1)
		}
		mean(&c.hidden, share, !c.hit)
		c.hit = true
	}
	mean(&c.wait, max(t.Wait, 0), !c.known)
	mean(&c.hits, hit, !c.known)
	mean(&c.bytes, float64(max(t.Bytes, 0)), !c.known)
	c.known, c.fresh = true, true
}

// now returns the cost of a question by the current estimates.
func (c *Costs) now() float64 {
	exposed := c.wait * (1 - c.hits*c.hidden)
	return exposed*c.prices.Second + c.bytes*c.prices.Byte + c.prices.Ask
}

// at returns the cost of the block of pos. In a replay, a block that is missing in the record costs as much as the one
// before it.
func (c *Costs) at(pos int) float64 {
	begin := pos - pos%costBlock
	i, found := slices.BinarySearchFunc(c.blocks, begin, func(b Cost, pos int) int { return cmp.Compare(b.Pos, pos) })
	switch {
	case found:
		return c.blocks[i].Cost
	case c.replayed:
		c.lacking = true
		if i == 0 {
			return 0
		}
		return c.blocks[i-1].Cost
	}
	if !c.fresh {
		c.wait, c.bytes = c.wait*ageing, c.bytes*ageing
	}
	c.fresh = false
	c.blocks = slices.Insert(c.blocks, i, Cost{begin, c.now()})
	return c.blocks[i].Cost
}

// Record returns the costs of all blocks with decisions, by rising position.
func (c *Costs) Record() []Cost { return slices.Clone(c.blocks) }

// Lacking reports whether a replay needed a block that is missing in its record.
func (c *Costs) Lacking() bool { return c.lacking }
