package soft

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const scheduleSource = `#include <metal_stdlib>
using namespace metal;
kernel void talk(device uint *out [[buffer(0)]], constant uint &n [[buffer(1)]], uint t [[thread_index_in_threadgroup]],
                 uint group [[threadgroup_position_in_grid]], uint threads [[threads_per_threadgroup]]) {
  threadgroup uint s[1024];
  uint v = t + group;
  for (uint i = 0; i < n; i++) {
    s[t] = v;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    v = s[(t + 1) % threads] * 3 + simd_sum(v) + i;
    simdgroup_barrier(mem_flags::mem_none);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t / 32 % 2 == 0) v += simd_max(v);
  }
  out[group * threads + t] = v;
}
`

// talk computes the result of the kernel in Go.
func talk(group, threads, n int) []uint32 {
	v := make([]uint32, threads)
	for t := range v {
		v[t] = uint32(t + group)
	}
	for i := range n {
		next := make([]uint32, threads)
		for t := range v {
			next[t] = v[(t+1)%threads]*3 + uint32(i)
			for l := t / 32 * 32; l < min(threads, t/32*32+32); l++ {
				next[t] += v[l]
			}
		}
		v = next
		for first := 0; first < threads; first += 64 { // every other simdgroup
			largest := uint32(0)
			for l := first; l < min(threads, first+32); l++ {
				largest = max(largest, v[l])
			}
			for l := first; l < min(threads, first+32); l++ {
				v[l] += largest
			}
		}
	}
	return v
}

// TestSchedules: threads that communicate through memory and operations of the simdgroup give the same result with any
// schedule, size of threadgroups and number of OS threads.
func TestSchedules(t *testing.T) {
	for seed := range uint64(8) {
		o := Options{Variant: []Variant{Fast, Check}[seed%2], Seed: seed, Threads: int(seed%4) + 1}
		d := newRig(t, scheduleSource, o)
		p := d.pipeline("talk")
		for _, threads := range []int{1, 31, 32, 33, 64, 100, 1000, 1024} {
			const groups, rounds = 5, 4
			out, c := d.buffer(4*threads*groups), d.commands()
			encode(c, p, size(groups, 1, 1), size(threads, 1, 1), out, words(t, d.Device, rounds))
			require.NoError(t, finish(c))
			for g := range groups {
				for i, want := range talk(g, threads, rounds) {
					got := binary.NativeEndian.Uint32(out.Bytes()[4*(g*threads+i):])
					require.Equal(t, want, got, "%+v: %d threads, threadgroup %d", o, threads, g)
				}
			}
		}
	}
}

const orderSource = `#include <metal_stdlib>
using namespace metal;
kernel void order(device uint *out [[buffer(0)]], device atomic_uint *n [[buffer(1)]],
                  constant uint &first [[buffer(2)]], uint t [[thread_position_in_grid]]) {
  out[atomic_fetch_add_explicit(n, 1, memory_order_relaxed)] = first + t;
}
`

// TestSeeds: the seed determines the order of threads, and of dispatches without a barrier between them.
func TestSeeds(t *testing.T) {
	const threads, dispatches = 4 * 64, 8
	order := func(seed uint64) (ofThreads, ofDispatches string) {
		d := newRig(t, orderSource, Options{Seed: seed, Threads: 1})
		out, c := d.buffer(4*(threads+dispatches)), d.commands()
		zero := words(t, d.Device, 0)
		encode(c, d.pipeline("order"), size(4, 1, 1), size(threads/4, 1, 1), out, words(t, d.Device, 0), zero)
		c.Barrier()
		for i := range uint32(dispatches) {
			set(c, 2, words(t, d.Device, i), 0)
			c.Dispatch(size(1, 1, 1), size(1, 1, 1))
		}
		require.NoError(t, finish(c))
		return string(out.Bytes()[:4*threads]), string(out.Bytes()[4*threads:])
	}
	one, first := order(1)
	for seed := range uint64(3) {
		other, second := order(seed)
		assert.Equal(t, seed == 1, one == other, "threads with the seed %d", seed)
		assert.Equal(t, seed == 1, first == second, "dispatches with the seed %d", seed)
	}
}
