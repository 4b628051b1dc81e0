// What kernels, the runtime and the Go side share: the memory of a worker, which is an OS thread that runs
// threadgroups, and the description of a dispatch. Struct layouts are repeated in metal/soft/worker.go.
//
// Each thread of a threadgroup is a fibre with a stack of its own. All stacks of a worker lie in one region whose
// address is a multiple of its size, so that the stack pointer tells which worker and which thread is running: nothing
// here is global or thread-local, and any number of workers run the same code.
#pragma once

namespace msl_rt {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

constexpr u64 kThreads = 1024;            // of a threadgroup
constexpr u64 kSimd = 32;                 // threads of a simdgroup
constexpr u64 kStack = 64 << 10;          // bytes of a fibre's stack
constexpr u64 kRegion = 128 << 20;        // bytes of a worker, and its alignment
constexpr u64 kStacks = kRegion / 2;      // where the stacks begin
constexpr u64 kArena = 256 << 10;         // bytes for threadgroup memory with its gaps
constexpr u64 kBuffers = 31;              // [[buffer(0)]] to [[buffer(30)]]
constexpr u64 kReports = 32;              // kept of one dispatch

// What a simdgroup's threads meet for. All of them must arrive with the same.
enum Op : u32 {
  kReturn = 1,
  kThreadgroupBarrier,
  kSimdgroupBarrier,
  kReduce,
  kShuffle = 100,
  kMultiply = 200,
};

// Simdgroup is 32 threads, or fewer in the last one of a threadgroup. They run one after the other up to the next
// operation at which they must all meet: that is a round. The last to arrive does the work of the operation.
struct Simdgroup {
  u32 size;         // threads
  u32 arrived;      // threads that have finished the round
  u32 op, at;       // where the round ends: operation, and line and column
  const char *file; // and file
  u32 stride, turn; // the order of the round
  u32 parity;       // which of the two slots and results the round uses
  u32 barrier[2];   // when its last simdgroup_barrier was, for device and for threadgroup memory
  u32 rounds;       // since the threadgroup began
  u64 trace[kSimd]; // hash of the collective loads and stores of each thread, which must agree
  alignas(64) u8 slot[2][kSimd * 32];
  alignas(64) u8 result[2][512];
};

// Fault is the kind of a report. The names are in fault.go.
enum Fault : u32 {
  kRace = 1,
  kBounds,
  kUninitialised,
  kReadOnly,
  kDivergence,
  kLane,
  kMisaligned,
  kIndex,
  kArithmetic,
};

struct Report {
  u32 kind, at;          // at: line * 1024 + column, if file is set
  const char *file;      // else pc says where
  u64 pc;                // in the module
  int buffer;            // index, or -1
  u32 size, write;       // of the access
  u32 thread, group;     // who
  u32 other, otherClock; // the thread on the other side of a race, and when
  u32 otherAt;
  const char *otherFile;
  long offset;           // in the buffer
  const char *variable;  // of threadgroup memory
  const char *detail;    // more words
};

// Cell is what the checks know of one byte: when it was last written and read, and by whom.
struct Cell {
  u32 written, read;
  u16 writer, reader;
};

// Region is a binding of a dispatch: bytes [start,end) belong to buffer index; what lies up to limit belongs to the
// same buffer under another index.
struct Region {
  u64 start, end, limit;
  u64 base;           // of the buffer
  Cell *cells;        // one per byte of the buffer, or null if nothing writes it
  u8 *unwritten;      // 1 for each byte of the buffer that nobody has written, or null
  u64 *seen;          // one bit per byte of the buffer that this dispatch has read
  u64 *ever;          // and that was read since the counts began
  u64 *put, *everPut; // the same for writes, or null
  u32 index, writeIndex;
  u32 readOnly, spare;
  u64 read, unique, written, writtenUnique, lines, ideal, fetched, everUnique, everWritten;
  u64 low, high, putLow, putHigh; // bits of seen and put that may be set
};

// Variable is threadgroup memory that a kernel declares.
struct Variable {
  const void *kernel; // the function
  u64 size, align;
  const char *name, *file;
  u32 line, offset;   // offset in the arena, set when the library is loaded
};

struct Kernel {
  void (*thunk)();
  const void *function;
};

struct Constant {
  void *value;
  bool *given;
  u64 size;
};

// Dispatch is what the Go side asks for.
struct Dispatch {
  u32 kernel;
  u32 check;           // 1: shadow memory
  u64 seed;            // of the schedule; 0 means in order
  u64 buffers[kBuffers + 1];
  u32 memory[kBuffers + 1]; // lengths of dynamic threadgroup memory
  u32 grid[4], group[4];    // threadgroups, and threads of each
  u32 next;            // threadgroups taken
  u32 stop;            // a worker has found a fault
  u32 newLevel;        // a barrier stands before this dispatch
  u32 regionCount;
  Region *regions;
};

struct Placed {        // a piece of the arena
  u32 offset, size;
  int index;           // of dynamic memory, or -1
  u32 spare;
  const char *name;
};

struct Lines;          // counts of transactions, in check.cpp
constexpr u64 kLinesSize = 64 << 20; // bytes for them

struct Worker {
  Dispatch *dispatch;
  void (*thunk)();
  void *mainStack;
  u64 random;
  u32 shuffled, dirty, ready, checking; // dirty: fibres stand somewhere inside a kernel; ready: how many have stacks
  u32 threads, simdgroups;
  u32 runnable;        // bit per simdgroup
  u32 waiting, returned;
  u32 aborted;
  u32 barrierOp, barrierAt;
  const char *barrierFile;
  u32 shape[4];        // threadgroup size that positions are made for
  u32 grid[4], group[4]; // of the dispatch
  u32 groupPosition[4], groupLinear, groupCount;
  u32 clock, levelStart, groupStart, barrier[2]; // of checks; barrier: last one for device and threadgroup memory
  u32 pieces, reportCount, lastRegion;
  u8 *arena;
  u64 *memory[kBuffers + 1];
  u64 buffers[kBuffers + 1];
  Cell *arenaCells;    // one per byte of the arena
  Lines *lines;
  u64 linesSize;
  u64 moduleStart, moduleEnd;
  u8 conditions[64];   // constants that decide whether parameters are there
  Report reports[kReports];
  Placed piece[96];
  u32 lastPiece;                  // of the last access
  void *stack[kThreads];          // saved stack pointers
  u32 position[kThreads][4];
  Simdgroup simdgroup[kThreads / kSimd];
};

static inline __attribute__((always_inline, nodebug)) u64 stackPointer() {
  u64 sp;
#if defined(__x86_64__)
  asm("movq %%rsp, %0" : "=r"(sp));
#else
  asm("mov %0, sp" : "=r"(sp));
#endif
  return sp;
}
static inline __attribute__((always_inline, nodebug)) Worker *self() {
  return (Worker *)(stackPointer() & ~(kRegion - 1));
}
static inline __attribute__((always_inline, nodebug)) u32 threadIndex() {
  return (u32)((stackPointer() & (kRegion - 1)) - kStacks) / (u32)kStack;
}

extern "C" {
// msl_arrive ends the round of the running thread at op. It returns true at once for the last thread of the simdgroup,
// which does the work and calls msl_proceed, and false for the others, when that is done.
bool msl_arrive(Worker *w, Simdgroup *g, u32 op, const char *file, u32 at);
void msl_proceed(Worker *w, Simdgroup *g);
void msl_threadgroup_barrier(u32 flags, const char *file, u32 at);
void msl_simdgroup_barrier(u32 flags, const char *file, u32 at);
void msl_bad_lane(u32 lane, const char *file, u32 at);
// msl_access tells the checks of an access that the compiler's hooks do not see.
void msl_access(const void *p, u64 size, u32 kind, const void *pc);
}
enum Access : u32 { kRead = 0, kWrite = 1, kAtomicRead = 2, kAtomicWrite = 3 };

}
