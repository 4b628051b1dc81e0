// Prefetches the line at o(R): what a loop reads next, from further and further away. The CPU's own prefetching stops
// at the end of a page, and on AMD's Zen 4 nearly all of it once other pages are read alternately with the weights, as
// those of long activations are. What is asked for into the first level then waits in one of its few buffers for all of
// the time that memory takes, which is half of the bandwidth; asked for into the second it does not, but many such
// requests come to nothing: so it is asked twice. Never a fault.
#define NEAR(R, o) PREFETCHT1 (16384+o)(R); PREFETCHT1 (8192+o)(R); PREFETCHT0 (o)(R)
#define PREFETCH(R, o) NEAR(R, 4096+o)

// The same for a GEMM of four rows, whose weights come from four places: M is what the next four rows have there.
#define GEMMLINE(M) PREFETCHT1 1024 M; PREFETCHT0 M
