package batch

import "github.com/pilotfish-ai/pilotfish/internal/sorted"

// Remembered counts what is kept in memory of devices and sessions.
func Remembered(s *Service) int {
	return len(s.front.flows) + len(s.back.flows) + len(s.trees.holders) + len(s.trees.trees)
}

// CountComparisons counts, from now on, how often two leaves, sessions or devices are compared to find what to evict.
func CountComparisons(s *Service) *int {
	n := new(int)
	for i := range s.trees.bySize {
		counted(&s.trees.bySize[i], n)
	}
	for _, h := range s.trees.holders {
		counted(&h.trees, n)
	}
	for _, t := range s.trees.trees {
		counted(&t.leaves, n)
	}
	return n
}

func counted[T any](s *sorted.Heap[T], n *int) {
	before := s.Before
	s.Before = func(a, b T) bool {
		*n++
		return before(a, b)
	}
}
