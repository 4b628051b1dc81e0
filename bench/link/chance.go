package link

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"
)

// way distinguishes the two directions, so that one seed gives them independent random numbers.
type way uint64

const (
	wayUp   way = 1
	wayDown way = 2
)

// dice draws the random numbers of a direction's packets. They come from ChaCha8 with a key of seed, direction and
// packet, so that they depend on nothing else, and those of different packets are independent.
type dice struct {
	seed   uint64
	way    way
	source rand.ChaCha8
}

// rolls are the random numbers of one packet, each uniform in [0, 1). All are drawn for every packet, used or not, so
// that changing one option does not change the random events of another.
type rolls struct{ loss, step, burst, jitter, reorder, duplicate float64 }

// start is the number of the packet with the roll that determines the initial state of the chain of [Burst].
const start = math.MaxUint64

// of returns the rolls of packet n.
func (d *dice) of(n uint64) rolls {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], d.seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(d.way))
	binary.LittleEndian.PutUint64(key[16:], n)
	d.source.Seed(key)
	roll := func() float64 { return float64(d.source.Uint64()>>11) / (1 << 53) }
	return rolls{roll(), roll(), roll(), roll(), roll(), roll()}
}

// chain is the state of a [Burst].
type chain struct {
	Burst
	bad bool
}

// newChain begins in the stationary distribution of the chain: u is a roll.
func newChain(b Burst, u float64) chain {
	return chain{b, b.ToBad > 0 && u < b.ToBad/(b.ToBad+b.ToGood)}
}

// loses reports whether the packet with these rolls is lost, and advances the chain to the next packet.
func (c *chain) loses(r rolls) bool {
	if c.ToBad == 0 {
		return r.burst < c.LossGood
	}
	lost, leave := r.burst < c.LossGood, r.step < c.ToBad
	if c.bad {
		lost, leave = r.burst < c.LossBad, r.step < c.ToGood
	}
	c.bad = c.bad != leave
	return lost
}

// jitter converts a roll to the time that is added to the delay.
func (d Direction) jitter(u float64) time.Duration {
	if d.JitterKind == Exponential {
		u = min(-math.Log1p(-u), 10)
	}
	return time.Duration(u * float64(d.Jitter))
}
