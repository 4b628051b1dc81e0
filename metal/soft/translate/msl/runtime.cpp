// Runs dispatches: fibres, the order in which they run, and the places where they meet.
#include "runtime.h"

using namespace msl_rt;

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
void *memset(void *, int, unsigned long);
void *memcpy(void *, const void *, unsigned long);
extern const Kernel msl_kernels[];
extern const Constant msl_constants[];
extern const char msl_meta[];
extern Variable __start_msl_variables[] __attribute__((visibility("hidden")));
extern Variable __stop_msl_variables[] __attribute__((visibility("hidden")));
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
void msl_switch(void **save, void *to) __attribute__((visibility("hidden")));
void msl_report(Worker *w, const Report *r) __attribute__((visibility("hidden")));
void msl_check_group(Worker *w) __attribute__((visibility("hidden")));
void msl_check_end(Worker *w) __attribute__((visibility("hidden")));
}

// The table of variables must exist even where no kernel has any.
static Variable noVariable __attribute__((section("msl_variables"), used)) = {};

// msl_switch(save, to) leaves the running fibre, whose stack pointer goes to *save, and continues the one at to. It
// ends with ret, because the processor predicts it well: fibres mostly continue where the one before them stopped.
#if defined(__x86_64__)
asm(R"(
.text
.globl msl_switch
.hidden msl_switch
.type msl_switch, @function
msl_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size msl_switch, . - msl_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl msl_switch
.hidden msl_switch
.type msl_switch, %function
msl_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size msl_switch, . - msl_switch
)");
#else
#error "no context switch for this processor"
#endif

static inline u32 random32(Worker *w) {
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return (u32)(w->random >> 24);
}

// laneAt returns the k-th thread of the round's order.
static inline u32 laneAt(const Simdgroup *g, u32 k) {
  if (g->size == kSimd) return (k * g->stride + g->turn) % kSimd;
  return (g->stride & 2 ? k + g->turn : g->size - 1 - k + g->turn) % g->size;
}

// order begins a round.
static inline void order(Worker *w, Simdgroup *g) {
  g->arrived = 0;
  g->rounds++;
  if (w->shuffled) {
    u32 r = random32(w);
    g->stride = r | 1;
    g->turn = (r >> 8) % g->size;
  }
}

static inline u32 idOf(Worker *w, Simdgroup *g) { return (u32)(g - w->simdgroup) * (u32)kSimd; }

static inline void resume(Worker *w, u32 next) {
  u32 me = threadIndex();
  if (next != me) msl_switch(&w->stack[me], w->stack[next]);
}

// Stops the dispatch from inside a fibre. The other fibres stay where they are and are made anew for the next one.
static __attribute__((noreturn)) void stop(Worker *w) {
  w->aborted = 1;
  void *nowhere;
  msl_switch(&nowhere, w->mainStack);
  __builtin_unreachable();
}
extern "C" __attribute__((visibility("hidden"))) void msl_stop(Worker *w) { stop(w); }

static void diverged(Worker *w, Simdgroup *g, u32 op, const char *file, u32 at) {
  Report r = {};
  r.kind = kDivergence;
  r.file = op == kReturn ? g->file : file;
  r.at = op == kReturn ? g->at : at;
  if (op != kReturn && g->op != kReturn) r.otherFile = g->file, r.otherAt = g->at;
  r.detail = op == kReturn || g->op == kReturn ? "other threads of the simdgroup have returned"
                                               : "other threads of the simdgroup are at another operation";
  msl_report(w, &r);
  stop(w);
}

static bool sameFile(const char *a, const char *b) {
  if (a == b) return true;
  if (!a || !b) return false;
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

static inline bool sameTrace(const Simdgroup *g) {
  for (u32 i = 1; i < g->size; i++)
    if (g->trace[i] != g->trace[0]) return false;
  return true;
}

bool msl_rt::msl_arrive(Worker *w, Simdgroup *g, u32 op, const char *file, u32 at) {
  if (!g->arrived) {
    g->op = op, g->file = file, g->at = at;
  } else if (g->op != op || g->at != at || !sameFile(g->file, file)) {
    diverged(w, g, op, file, at);
  }
  if (++g->arrived < g->size) {
    resume(w, idOf(w, g) + laneAt(g, g->arrived));
    return false;
  }
  if (w->checking && !sameTrace(g)) {
    Report r = {};
    r.kind = kDivergence, r.file = file, r.at = at;
    r.detail = "threads of the simdgroup did not take part alike in the simdgroup_load and simdgroup_store before it";
    msl_report(w, &r);
    stop(w);
  }
  return true;
}

// pick continues a simdgroup that can run.
static void pick(Worker *w) {
  u32 n = __builtin_ctz(w->runnable);
  if (w->shuffled) {
    u32 skip = random32(w) % (u32)__builtin_popcount(w->runnable);
    u32 left = w->runnable;
    while (skip--) left &= left - 1;
    n = __builtin_ctz(left);
  }
  Simdgroup *g = &w->simdgroup[n];
  resume(w, n * (u32)kSimd + laneAt(g, g->arrived));
}

void msl_rt::msl_proceed(Worker *w, Simdgroup *g) {
  g->parity ^= 1;
  order(w, g);
  if (w->shuffled && (w->runnable & (w->runnable - 1)) && random32(w) % 4 == 0) return pick(w);
  resume(w, idOf(w, g) + laneAt(g, 0));
}

static void barrierTime(Worker *w, u32 *barrier, u32 flags) {
  if (!w->checking) return;
  w->clock++;
  if (flags & 1) barrier[0] = w->clock;
  if (flags & 2) barrier[1] = w->clock;
}

void msl_rt::msl_simdgroup_barrier(u32 flags, const char *file, u32 at) {
  Worker *w = self();
  Simdgroup *g = &w->simdgroup[threadIndex() / kSimd];
  if (!msl_arrive(w, g, kSimdgroupBarrier, file, at)) return;
  barrierTime(w, g->barrier, flags);
  msl_proceed(w, g);
}

void msl_rt::msl_threadgroup_barrier(u32 flags, const char *file, u32 at) {
  Worker *w = self();
  Simdgroup *g = &w->simdgroup[threadIndex() / kSimd];
  if (!msl_arrive(w, g, kThreadgroupBarrier, file, at)) return;
  if (w->waiting == 0) {
    w->barrierFile = file, w->barrierAt = at;
  } else if (w->barrierAt != at || !sameFile(w->barrierFile, file)) {
    Report r = {};
    r.kind = kDivergence, r.file = file, r.at = at, r.otherFile = w->barrierFile, r.otherAt = w->barrierAt;
    r.detail = "other simdgroups are at another barrier";
    msl_report(w, &r);
    stop(w);
  }
  w->runnable &= ~(1u << (g - w->simdgroup));
  g->parity ^= 1;
  order(w, g);
  if (++w->waiting == w->simdgroups) {
    w->waiting = 0;
    w->runnable = w->simdgroups == 32 ? ~0u : (1u << w->simdgroups) - 1;
    barrierTime(w, w->barrier, flags);
  }
  if (w->returned) {
    Report r = {};
    r.kind = kDivergence, r.file = file, r.at = at;
    r.detail = "other simdgroups have returned";
    msl_report(w, &r);
    stop(w);
  }
  pick(w);
}

// Ends the running thread's part of the threadgroup. It comes back when the next threadgroup begins.
static void finish(Worker *w) {
  Simdgroup *g = &w->simdgroup[threadIndex() / kSimd];
  if (!msl_arrive(w, g, kReturn, nullptr, 0)) return;
  w->runnable &= ~(1u << (g - w->simdgroup));
  w->returned++;
  if (w->waiting) {
    Report r = {};
    r.kind = kDivergence, r.file = w->barrierFile, r.at = w->barrierAt;
    r.detail = "other simdgroups have returned";
    msl_report(w, &r);
    stop(w);
  }
  if (w->runnable) return pick(w);
  msl_switch(&w->stack[threadIndex()], w->mainStack);
}

static void fibre() {
  for (;;) {
    Worker *w = self();
    w->thunk();
    finish(self());
  }
}

void msl_rt::msl_bad_lane(u32 lane, const char *file, u32 at) {
  Worker *w = self();
  if (!w->checking) return;
  Report r = {};
  r.kind = kLane, r.file = file, r.at = at, r.offset = lane;
  msl_report(w, &r);
}

// Gives the threads that the dispatch needs fresh stacks, unless they have some. Tops are staggered, so that threads do
// not all use the same cache lines.
static void makeFibres(Worker *w) {
  if (w->dirty) w->ready = w->dirty = 0;
  for (u64 i = w->ready; i < w->threads; i++) {
    u64 top = (u64)w + kStacks + (i + 1) * kStack - 64 - (i % 32) * 192;
    u64 *sp = (u64 *)top;
#if defined(__x86_64__)
    *--sp = 0; // as if it had been called
    *--sp = (u64)fibre;
    for (int k = 0; k < 6; k++) *--sp = 0;
#else
    sp -= 20;
    memset(sp, 0, 160);
    sp[11] = (u64)fibre;
#endif
    w->stack[i] = sp;
  }
  if (w->ready < w->threads) w->ready = w->threads;
}

// Positions of the threads in a threadgroup of the dispatch's shape.
static void makePositions(Worker *w) {
  const Dispatch *d = w->dispatch;
  if (w->shape[0] == d->group[0] && w->shape[1] == d->group[1] && w->shape[2] == d->group[2]) return;
  for (int k = 0; k < 3; k++) w->shape[k] = d->group[k];
  u32 i = 0;
  for (u32 z = 0; z < d->group[2]; z++)
    for (u32 y = 0; y < d->group[1]; y++)
      for (u32 x = 0; x < d->group[0]; x++, i++) w->position[i][0] = x, w->position[i][1] = y, w->position[i][2] = z;
}

// Lays out threadgroup memory: what the kernel declares, then what the dispatch gives, with gaps between them.
static void place(Worker *w) {
  const Dispatch *d = w->dispatch;
  const void *function = msl_kernels[d->kernel].function;
  w->pieces = 0;
  u32 end = 256;
  for (Variable *v = __start_msl_variables; v < __stop_msl_variables; v++)
    if (v->kernel == function && v->size) {
      w->piece[w->pieces++] = Placed{v->offset, (u32)v->size, -1, 0, v->name};
      if (v->offset + v->size + 256 > end) end = (v->offset + (u32)v->size + 256 + 63) & ~63u;
    }
  for (u32 i = 0; i < kBuffers; i++) {
    w->memory[i] = nullptr;
    if (!d->memory[i]) continue;
    w->memory[i] = (u64 *)(w->arena + end);
    w->piece[w->pieces++] = Placed{end, d->memory[i], (int)i, 0, nullptr};
    end = (end + d->memory[i] + 256 + 63) & ~63u;
  }
}

// Fills threadgroup memory with what no kernel should use: NaN, another one each time where schedules are shuffled.
static void fillArena(Worker *w) {
  u32 pattern = 0x7fff7fffu - (w->shuffled ? random32(w) & 0x001f001fu : 0);
  for (u32 i = 0; i < w->pieces; i++) {
    u32 *p = (u32 *)(w->arena + w->piece[i].offset);
    for (u32 k = 0; k < (w->piece[i].size + 3) / 4; k++) p[k] = pattern;
  }
}

static void runGroup(Worker *w, u32 linear) {
  const Dispatch *d = w->dispatch;
  w->groupLinear = linear;
  w->groupPosition[0] = linear % d->grid[0];
  w->groupPosition[1] = linear / d->grid[0] % d->grid[1];
  w->groupPosition[2] = linear / d->grid[0] / d->grid[1];
  w->waiting = w->returned = 0;
  w->runnable = w->simdgroups == 32 ? ~0u : (1u << w->simdgroups) - 1;
  for (u32 i = 0; i < w->simdgroups; i++) {
    Simdgroup *g = &w->simdgroup[i];
    u32 left = w->threads - i * (u32)kSimd;
    g->size = left < kSimd ? left : (u32)kSimd;
    g->rounds = 0, g->parity = 0, g->stride = g->size == kSimd ? 1 : 3, g->turn = 0;
    order(w, g);
    if (w->checking) memset(g->trace, 0, sizeof g->trace);
  }
  fillArena(w);
  if (w->checking) msl_check_group(w);
  u32 n = w->shuffled ? random32(w) % w->simdgroups : 0;
  msl_switch(&w->mainStack, w->stack[n * kSimd + laneAt(&w->simdgroup[n], 0)]);
}

static u64 gcd(u64 a, u64 b) {
  while (b) {
    u64 t = a % b;
    a = b, b = t;
  }
  return a;
}

// msl_run takes threadgroups of a dispatch and runs them until none is left. Several workers may run the same dispatch.
EXPORT int msl_run(Worker *w, Dispatch *d) {
  w->dispatch = d;
  w->thunk = msl_kernels[d->kernel].thunk;
  w->checking = d->check;
  w->shuffled = d->seed != 0;
  w->random = d->seed * 0x9e3779b97f4a7c15ul + 0x1234567;
  w->aborted = w->reportCount = w->lastRegion = 0;
  w->moduleStart = (u64)__ehdr_start, w->moduleEnd = (u64)_end;
  w->threads = d->group[0] * d->group[1] * d->group[2];
  w->simdgroups = (w->threads + (u32)kSimd - 1) / (u32)kSimd;
  memcpy(w->buffers, d->buffers, sizeof w->buffers);
  memcpy(w->grid, d->grid, sizeof w->grid);
  memcpy(w->group, d->group, sizeof w->group);
  makeFibres(w);
  makePositions(w);
  place(w);
  u64 count = w->groupCount = d->grid[0] * d->grid[1] * d->grid[2];
  u64 start = 0, step = 1; // every worker computes the same order
  if (w->shuffled && count > 1) {
    start = random32(w) % count;
    do step = 1 + random32(w) % count;
    while (gcd(step, count) != 1);
  }
  if (w->checking && d->newLevel) w->levelStart = ++w->clock;
  for (;;) {
    u64 k = __atomic_fetch_add(&d->next, 1, __ATOMIC_RELAXED);
    if (k >= count || __atomic_load_n(&d->stop, __ATOMIC_RELAXED)) break;
    runGroup(w, (u32)((start + k * step) % count));
    if (w->aborted) {
      w->dirty = 1;
      __atomic_store_n(&d->stop, 1, __ATOMIC_RELAXED);
      break;
    }
  }
  if (w->checking) msl_check_end(w);
  return (int)w->reportCount;
}

// msl_layout gives each threadgroup variable its place in the arena. It is called once, when the library is loaded.
EXPORT void msl_layout() {
  for (Variable *v = __start_msl_variables; v < __stop_msl_variables; v++) {
    u64 offset = 256;
    for (Variable *before = __start_msl_variables; before < v; before++)
      if (before->kernel == v->kernel) offset = before->offset + before->size + 256;
    u64 align = v->align < 64 ? 64 : v->align;
    v->offset = (u32)((offset + align - 1) / align * align);
  }
}

// msl_memory returns how many bytes of threadgroup memory a kernel declares, each variable at its alignment.
EXPORT u64 msl_memory(u32 kernel) {
  u64 total = 0;
  for (Variable *v = __start_msl_variables; v < __stop_msl_variables; v++)
    if (v->kernel == msl_kernels[kernel].function && v->size)
      total = (total + v->align - 1) / v->align * v->align + v->size;
  return total;
}

// msl_set_constant sets function constant i of the library, or takes it away if value is null.
EXPORT void msl_set_constant(u32 i, const void *value) {
  const Constant *c = &msl_constants[i];
  *c->given = value != nullptr;
  if (value) memcpy(c->value, value, c->size);
  else memset(c->value, 0, c->size);
}

EXPORT const char *msl_describe() { return msl_meta; }

// msl_layout_of returns sizes and offsets that the Go side must agree with, and 0 after the last.
EXPORT u64 msl_layout_of(u32 i) {
  const u64 all[] = {sizeof(Dispatch),
                     sizeof(Region),
                     sizeof(Report),
                     sizeof(Cell),
                     __builtin_offsetof(Dispatch, regions),
                     __builtin_offsetof(Region, putHigh),
                     __builtin_offsetof(Report, detail),
                     __builtin_offsetof(Worker, clock),
                     __builtin_offsetof(Worker, arena),
                     __builtin_offsetof(Worker, lines),
                     __builtin_offsetof(Worker, conditions),
                     __builtin_offsetof(Worker, reports),
                     kRegion,
                     kArena,
                     kLinesSize};
  return i < sizeof all / sizeof *all ? all[i] : 0;
}
static_assert(sizeof(Worker) < kStacks, "a worker must end before its stacks");

// Conversions that the compiler calls where the processor has no instruction for them.
extern "C" __bf16 __truncsfbf2(float x) {
  u32 b = __builtin_bit_cast(u32, x);
  u32 r = x != x ? (b >> 16) | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
  return __builtin_bit_cast(__bf16, (u16)r);
}
extern "C" __bf16 __truncdfbf2(double x) { return __truncsfbf2((float)x); }
