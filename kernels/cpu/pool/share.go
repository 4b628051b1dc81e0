package pool

import (
	"math"
	"sync/atomic"
)

// share is a run of pieces that its worker takes from first to last, so that it reads memory sequentially. A worker
// that has finished its own share takes pieces from the end of another one. A share is one word, which is updated with
// every piece, and has its own cache line.
type share struct {
	word atomic.Uint64 // epoch<<33 | long<<32 | from<<16 | to
	_    [56]byte
}

const (
	maxPieces = math.MaxUint16
	maxEpoch  = math.MaxUint32 / 2
)

// setPieces sets lo to hi of a loop. If long, the share's owner takes half of the rest at a time.
func (s *share) setPieces(epoch uint32, lo, hi int, long bool) {
	w := uint64(epoch)<<33 | uint64(lo)<<16 | uint64(hi)
	if long {
		w |= 1 << 32
	}
	s.word.Store(w)
}

// unpackPieces returns the remaining pieces of the word w; from equals to if there are none.
func unpackPieces(w uint64) (from, to uint64, long bool) {
	return w >> 16 & maxPieces, w & maxPieces, w>>32&1 != 0
}

// taken are pieces of a loop, from lo to hi; none if these are equal.
type taken struct {
	epoch  uint32
	lo, hi int
}

// takeFirst takes the first piece, or half of the rest, rounded up.
func (s *share) takeFirst() taken {
	for {
		w := s.word.Load()
		from, to, long := unpackPieces(w)
		n := min(1, to-from)
		if long {
			n = (to - from + 1) / 2
		}
		if n == 0 || s.word.CompareAndSwap(w, w+n<<16) {
			return taken{uint32(w >> 33), int(from), int(from + n)}
		}
	}
}

func (s *share) takeLast() taken {
	for {
		w := s.word.Load()
		from, to, _ := unpackPieces(w)
		n := min(1, to-from)
		if n == 0 || s.word.CompareAndSwap(w, w-n) {
			return taken{uint32(w >> 33), int(to - n), int(to)}
		}
	}
}
