package link

import (
	"encoding/binary"
	"math/rand/v2"
)

// directionID distinguishes the two directions, so that one seed gives them independent random numbers.
type directionID uint64

const (
	directionUp   directionID = 1
	directionDown directionID = 2
)

// lossSource draws the random numbers of a direction's packets. They come from ChaCha8 with a key of seed, direction
// and packet, so that they depend on nothing else, and those of different packets are independent.
type lossSource struct {
	seed   uint64
	way    directionID
	source rand.ChaCha8
}

// drawLoss returns the number of packet n that decides whether it is lost, uniform in [0, 1).
func (d *lossSource) drawLoss(n uint64) float64 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], d.seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(d.way))
	binary.LittleEndian.PutUint64(key[16:], n)
	d.source.Seed(key)
	return float64(d.source.Uint64()>>11) / (1 << 53)
}
