// The checks: shadow memory that finds races, accesses out of bounds and reads of what nobody has written, and counts
// what is read. The compiler calls the hooks at the end of this file before each access (-fsanitize=thread, without its
// runtime), and the __ubsan_ ones where it finds arithmetic that has no meaning (-fsanitize=array-bounds,...).
//
// Time is a counter. It moves on when a threadgroup begins and when a barrier opens. Checked dispatches run on one OS
// thread, threadgroup after threadgroup, so that the time of an access tells which threadgroup made it, and whether a
// barrier lies between it and now.
#include "runtime.h"

using namespace msl_rt;

extern "C" {
void *memset(void *, int, unsigned long);
void *memcpy(void *, const void *, unsigned long);
void *memmove(void *, const void *, unsigned long);
void msl_stop(Worker *w) __attribute__((visibility("hidden"), noreturn));
void msl_report(Worker *w, const Report *r) __attribute__((visibility("hidden")));
void msl_check_group(Worker *w) __attribute__((visibility("hidden")));
void msl_check_end(Worker *w) __attribute__((visibility("hidden")));
}

// What Cell.writer and Cell.reader hold: the thread, and that it was an atomic operation; or that several threads of
// simdgroup n (kManyLanes + n), of several simdgroups, or of several threadgroups have read. In the writer of the first
// byte of an aligned word, kWhole says that this cell stands for all four bytes, whatever the other three cells hold:
// most memory is only ever touched in words.
enum : u16 {
  kWhole = 0x8000,
  kAtomic = 0x4000,
  kThreadMask = 0x3fff,
  kManyLanes = 0x2000,
  kManyThreads = 0x3ffe,
  kManyGroups = 0x3fff
};

extern "C" void msl_report(Worker *w, const Report *r) {
  u64 pc = r->pc ? r->pc - w->moduleStart - 1 : 0; // inside the call, not after it
  for (u32 i = 0; i < w->reportCount; i++) {
    const Report *o = &w->reports[i];
    if (o->kind == r->kind && o->pc == pc && o->at == r->at && o->file == r->file) return;
  }
  if (w->reportCount == kReports) return;
  Report *to = &w->reports[w->reportCount++];
  *to = *r;
  to->thread = threadIndex();
  to->group = w->groupLinear;
  to->pc = pc;
}

// mark sets the bits [offset,offset+n) and returns how many were not set before.
static u64 mark(u64 *bits, u64 offset, u64 n) {
  u64 fresh = 0;
  while (n) {
    u64 in = offset % 64, take = 64 - in < n ? 64 - in : n;
    u64 mask = (take == 64 ? ~0ul : (1ul << take) - 1) << in;
    fresh += __builtin_popcountl(mask & ~bits[offset / 64]);
    bits[offset / 64] |= mask;
    offset += take, n -= take;
  }
  return fresh;
}

// ---- transactions: how many lines of 128 bytes the threads of a simdgroup touch with one load ----

namespace {
constexpr u32 kLine = 128, kMaxLines = 64, kLoads = 32768, kSites = 4096, kHash = 4 * kLoads;

struct Line {
  u64 number;
  u64 bytes[2]; // that are needed of it
};
struct Load { // one execution of a load by a simdgroup
  u64 pc;
  u32 simdgroup, round, turn, count, slot;
  Region *region;
  Line line[kMaxLines];
};
struct Site { // how often each thread of a simdgroup has executed a load since the simdgroup last met
  u64 pc;
  u32 simdgroup, used;
  u32 round[kSimd], turns[kSimd]; // one for each thread: the round, and the executions in it
};
}

struct msl_rt::Lines {
  u32 loads, sites;
  u16 used[kSites]; // indices into site
  u32 hash[kHash]; // index + 1 into load
  Site site[kSites];
  Load load[kLoads];
};

static_assert(sizeof(Lines) <= kLinesSize, "the counts of transactions must fit their memory");

static void settle(const Load *d) {
  u64 bytes = 0;
  for (u32 k = 0; k < d->count; k++)
    bytes += __builtin_popcountl(d->line[k].bytes[0]) + __builtin_popcountl(d->line[k].bytes[1]);
  d->region->fetched += bytes;
  d->region->lines += d->count;
  d->region->ideal += (bytes + kLine - 1) / kLine;
}

// flushLoads counts all loads and forgets them.
static void flushLoads(Lines *l) {
  for (u32 i = 0; i < l->loads; i++) {
    settle(&l->load[i]);
    l->hash[l->load[i].slot] = 0;
  }
  l->loads = 0;
}

static u32 hashOf(u64 pc, u32 simdgroup, u32 round, u32 turn) {
  return (u32)((pc * 31 + simdgroup * 7919ul + round * 15485863ul + turn * 104729ul) * 0x9e3779b97f4a7c15ul >> 44) %
         kHash;
}

// makeRoom counts the loads that are complete, because their simdgroup has met since. If there are few, it counts all,
// and threads that come to one of them later count it again.
static void makeRoom(Worker *w, Lines *l) {
  u32 kept = 0;
  for (u32 i = 0; i < l->loads; i++) {
    Load *d = &l->load[i];
    l->hash[d->slot] = 0;
    if (d->round != w->simdgroup[d->simdgroup].rounds) settle(d);
    else if (i != kept++) memcpy(&l->load[kept - 1], d, sizeof *d);
  }
  l->loads = kept;
  for (u32 i = 0; i < kept; i++) {
    Load *d = &l->load[i];
    u32 h = hashOf(d->pc, d->simdgroup, d->round, d->turn);
    while (l->hash[h]) h = (h + 1) % kHash;
    l->hash[h] = i + 1, d->slot = h;
  }
  if (kept > kLoads / 4 * 3) flushLoads(l);
}

static Site *findSite(Lines *l, u64 pc, u32 simdgroup) {
  u32 h = (u32)((pc * 0x9e3779b97f4a7c15ul >> 40) + simdgroup * 0x9e3779b1u) % kSites;
  for (u32 n = 0; n < kSites; n++, h = (h + 1) % kSites) {
    Site *s = &l->site[h];
    if (s->used && s->pc == pc && s->simdgroup == simdgroup) return s;
    if (!s->used) {
      s->used = 1, s->pc = pc, s->simdgroup = simdgroup;
      l->used[l->sites++] = (u16)h;
      return s;
    }
  }
  return nullptr;
}

static Load *findLoad(Worker *w, Lines *l, u64 pc, u32 simdgroup, u32 round, u32 turn, Region *region) {
  if (l->loads == kLoads) makeRoom(w, l);
  u32 h = hashOf(pc, simdgroup, round, turn);
  for (; l->hash[h]; h = (h + 1) % kHash) {
    Load *d = &l->load[l->hash[h] - 1];
    if (d->pc == pc && d->simdgroup == simdgroup && d->round == round && d->turn == turn && d->region == region)
      return d;
  }
  Load *d = &l->load[l->loads++];
  l->hash[h] = l->loads;
  d->pc = pc, d->simdgroup = simdgroup, d->round = round, d->turn = turn, d->count = 0, d->slot = h, d->region = region;
  return d;
}

static void countLines(Worker *w, Region *r, u64 offset, u64 size, u64 pc) {
  Lines *l = w->lines;
  u32 thread = threadIndex();
  Site *s = findSite(l, pc, thread / (u32)kSimd);
  if (!s) return;
  // Threads that leave a load out would fall behind: where the simdgroup meets, all begin anew.
  u32 round = w->simdgroup[thread / kSimd].rounds, lane = thread % (u32)kSimd;
  if (s->round[lane] != round) s->round[lane] = round, s->turns[lane] = 0;
  Load *d = findLoad(w, l, pc, thread / (u32)kSimd, round, s->turns[lane]++, r);
  while (size) {
    u64 number = offset / kLine, in = offset % kLine, n = kLine - in < size ? kLine - in : size;
    u32 k = d->count;
    while (k && d->line[k - 1].number != number) k--; // most often the last one
    if (!k) {
      if (d->count == kMaxLines) return;
      d->line[k = d->count++] = Line{number, {0, 0}};
      k++;
    }
    mark(d->line[k - 1].bytes, in, n);
    offset += n, size -= n;
  }
}

// ---- counts of bytes ----

static void count(Worker *w, Region *r, u64 offset, u64 n, bool write, u64 pc) {
  if (write) {
    r->written += n;
    if (!r->put) return;
    r->writtenUnique += mark(r->put, offset, n);
    r->everWritten += mark(r->everPut, offset, n);
    if (offset < r->putLow) r->putLow = offset;
    if (offset + n > r->putHigh) r->putHigh = offset + n;
    return;
  }
  r->read += n;
  if (!r->seen) return;
  r->unique += mark(r->seen, offset, n);
  r->everUnique += mark(r->ever, offset, n);
  if (offset < r->low) r->low = offset;
  if (offset + n > r->high) r->high = offset + n;
  countLines(w, r, offset, n, pc);
}

// ---- races ----

namespace {
// Seen is an access, as the checks look at it.
struct Seen {
  Worker *w;
  Region *region; // or null for threadgroup memory
  const Placed *piece;
  u64 address, size, pc;
  bool write, atomic;
};
}

static void report(const Seen &a, Fault kind, u64 at, u32 other, u32 clock, const char *detail) {
  Report r = {};
  r.kind = kind, r.pc = a.pc, r.size = (u32)a.size, r.write = a.write;
  r.buffer = a.region ? (int)(a.write ? a.region->writeIndex : a.region->index) : a.piece ? a.piece->index : -1;
  r.offset = a.region ? (long)(at - a.region->start) : a.piece ? (long)(at - (u64)a.w->arena - a.piece->offset) : 0;
  r.variable = a.region ? nullptr : a.piece && a.piece->name ? a.piece->name : "threadgroup memory";
  r.other = other, r.otherClock = clock, r.detail = detail;
  msl_report(a.w, &r);
}

// since returns the time after which accesses may be unordered: threadgroup memory begins anew with each threadgroup.
static u32 since(const Seen &a) { return a.region ? a.w->levelStart : a.w->groupStart; }

// simdgroupOf returns the only simdgroup that made an access, or a number that none has.
static u32 simdgroupOf(u32 who) {
  if (who < kThreads) return who / kSimd;
  return who - kManyLanes < kThreads / kSimd ? who - kManyLanes : ~0u;
}

// ordered reports whether what thread who did at time then is over, and can be seen, for the running thread.
static bool ordered(const Seen &a, u32 then, u32 who) {
  Worker *w = a.w;
  if (then < since(a)) return true;
  if (then < w->groupStart || who == kManyGroups) return false;
  u32 me = threadIndex();
  if (who == me) return true;
  u32 memory = a.region ? 0 : 1;
  if (then < w->barrier[memory]) return true;
  return simdgroupOf(who) == me / kSimd && then < w->simdgroup[me / kSimd].barrier[memory];
}

// plain reports whether the running thread has just made an access that is not atomic, which others cannot see yet: an
// atomic one that follows does not hide it.
static bool plain(const Seen &a, u32 then, u16 who) {
  u32 from = since(a), barrier = a.w->barrier[a.region ? 0 : 1];
  return a.atomic && who == threadIndex() && then >= (from > barrier ? from : barrier);
}

static bool checkRead(const Seen &a, Cell *c, u64 at) {
  Worker *w = a.w;
  u32 me = threadIndex();
  if (c->written >= since(a) && !(a.atomic && (c->writer & kAtomic)) &&
      !ordered(a, c->written, c->writer & kThreadMask)) {
    report(a, kRace, at, c->writer & kThreadMask, c->written, "a write");
    return false;
  }
  u32 reader = me, before = c->reader & kThreadMask;
  bool atomic = a.atomic && !plain(a, c->read, c->reader);
  if (c->read >= since(a) && (before != me || c->read < w->groupStart)) { // others may still be reading
    if (c->read < w->groupStart || before == kManyGroups) reader = kManyGroups;
    else if (!ordered(a, c->read, before))
      reader = simdgroupOf(before) == me / kSimd ? kManyLanes + me / (u32)kSimd : (u32)kManyThreads;
    if (reader != me) atomic = atomic && (c->reader & kAtomic);
  }
  c->read = w->clock, c->reader = (u16)(reader | (atomic ? kAtomic : 0));
  return true;
}

static bool checkWrite(const Seen &a, Cell *c, u64 at) {
  Worker *w = a.w;
  if (c->written >= since(a) && !(a.atomic && (c->writer & kAtomic)) &&
      !ordered(a, c->written, c->writer & kThreadMask)) {
    report(a, kRace, at, c->writer & kThreadMask, c->written, "a write");
    return false;
  }
  if (c->read >= since(a) && !(a.atomic && (c->reader & kAtomic)) && !ordered(a, c->read, c->reader & kThreadMask)) {
    report(a, kRace, at, c->reader & kThreadMask, c->read, "a read");
    return false;
  }
  c->writer = (u16)(threadIndex() | (a.atomic && !plain(a, c->written, c->writer) ? kAtomic : 0));
  c->written = w->clock;
  return true;
}

static bool same(const Cell &a, const Cell &b) {
  return a.written == b.written && a.read == b.read && a.writer == b.writer && a.reader == b.reader;
}

// apart gives each byte of a word its own cell.
static void apart(Cell *word) {
  word->writer &= ~kWhole;
  word[1] = word[2] = word[3] = *word;
}

// checkCells checks every byte of an access; the four of a word at once, where they have the same history.
static void checkCells(const Seen &a, Cell *c) {
  for (u64 i = 0; i < a.size;) {
    u64 at = a.address + i, in = at & 3;
    Cell *word = c + i - in;
    if (in || a.size - i < 4) {
      if (word->writer & kWhole) apart(word);
    } else if (word->writer & kWhole || (same(c[i], c[i + 1]) && same(c[i], c[i + 2]) && same(c[i], c[i + 3]))) {
      word->writer &= ~kWhole;
      bool good = a.write ? checkWrite(a, word, at) : checkRead(a, word, at);
      word->writer |= kWhole;
      if (!good) return;
      i += 4;
      continue;
    }
    if (!(a.write ? checkWrite(a, &c[i], at) : checkRead(a, &c[i], at))) return;
    i++;
  }
}

// ---- memory that nobody has written ----

// poison returns what fills eight bytes that count as not written: four numbers that are NaN in every format, another
// one at each address. metal/soft/shadow.go has the same.
static u64 poison(u64 address) {
  u64 h = (address >> 3) * 0x9e3779b97f4a7c15ul;
  return 0x7f817f817f817f81ul + (h >> 33 & 0x003e003e003e003eul);
}

// neverWritten reports whether the byte at an address still holds poison and no kernel wrote it. What differs was
// written by the CPU.
static bool neverWritten(Region *r, u64 at) {
  if (!r->unwritten[at - r->base]) return false;
  u64 word = r->base + ((at - r->base) & ~7ul), end = word + 8 < r->limit ? word + 8 : r->limit;
  u64 want = poison(word - r->base);
  bool same = true;
  for (u64 i = word; i < end; i++) same = same && *(u8 *)i == ((u8 *)&want)[i - word];
  if (same) return true;
  for (u64 i = word; i < end; i++) r->unwritten[i - r->base] = 0;
  return false;
}

// ---- an access ----

static void outside(const Seen &a, const char *detail) {
  report(a, kBounds, a.address, 0, 0, detail);
  msl_stop(a.w);
}

static void deviceAccess(Seen &a) {
  Region *r = a.region;
  if (a.address + a.size > r->limit) outside(a, "past the end of the buffer");
  count(a.w, r, a.address - r->base, a.size, a.write, a.pc);
  if (a.write && r->readOnly) {
    report(a, kReadOnly, a.address, 0, 0, nullptr);
    msl_stop(a.w);
  }
  for (u64 at = a.address; r->unwritten && at < a.address + a.size; at++) {
    if (!a.write && neverWritten(r, at)) {
      report(a, kUninitialised, at, 0, 0, nullptr);
      return;
    }
    if (a.write) r->unwritten[at - r->base] = 0;
  }
  if (r->cells) checkCells(a, &r->cells[a.address - r->base]);
}

static bool holds(const Placed *p, u64 offset, u64 size) {
  return offset >= p->offset && offset + size <= p->offset + p->size;
}

// findPiece finds the variable that an access is in. It does not return if there is none.
static void findPiece(Seen &a, u64 offset) {
  Worker *w = a.w;
  const Placed *nearest = nullptr;
  a.piece = nullptr;
  for (u32 i = 0; i < w->pieces; i++) {
    const Placed *p = &w->piece[i];
    if (holds(p, offset, a.size)) a.piece = p;
    if (p->offset <= offset && (!nearest || p->offset > nearest->offset)) nearest = p;
  }
  if (a.piece) return;
  a.piece = nearest;
  outside(a, "outside threadgroup memory");
}

static void threadgroupAccess(Seen &a) {
  Worker *w = a.w;
  u64 offset = a.address - (u64)w->arena;
  a.piece = &w->piece[w->lastPiece < w->pieces ? w->lastPiece : 0]; // most often the same as before
  if (!w->pieces || !holds(a.piece, offset, a.size)) findPiece(a, offset);
  w->lastPiece = (u32)(a.piece - w->piece);
  Cell *cells = &w->arenaCells[offset];
  for (u64 i = 0; i < a.size && !a.write;) {
    u64 in = (a.address + i) & 3;
    bool whole = cells[i - in].writer & kWhole;
    if ((whole ? cells[i - in] : cells[i]).written < w->groupStart)
      return report(a, kUninitialised, a.address + i, 0, 0, nullptr);
    i += whole ? 4 - in : 1;
  }
  checkCells(a, cells);
}

// nearest returns the region that an address misses by least.
static Region *nearest(Dispatch *d, u64 address) {
  Region *best = nullptr;
  u64 least = ~0ul;
  for (u32 i = 0; i < d->regionCount; i++) {
    Region *r = &d->regions[i];
    u64 miss = address < r->start ? r->start - address : address - r->limit;
    if (miss < least) least = miss, best = r;
  }
  return least < (1ul << 32) ? best : nullptr;
}

static void access(u64 address, u64 size, u32 kind, u64 pc) {
  Worker *w = self();
  if (!w->checking || !size) return;
  Seen a = {w, nullptr, nullptr, address, size, pc, (kind & 1) != 0, (kind & 2) != 0};
  Dispatch *d = w->dispatch;
  if (address - (u64)w->arena < kArena) return threadgroupAccess(a);
  if (address - (u64)w < kRegion) return;
  u32 n = d->regionCount;
  for (u32 k = 0, i = w->lastRegion < n ? w->lastRegion : 0; k < n; k++, i = i + 1 == n ? 0 : i + 1) {
    Region *r = &d->regions[i];
    if (address >= r->start && address < r->end) {
      w->lastRegion = i;
      a.region = r;
      return deviceAccess(a);
    }
  }
  if (address - w->moduleStart < w->moduleEnd - w->moduleStart) return;
  a.region = nearest(d, address);
  outside(a, a.region ? address < a.region->start ? "before the bound offset" : "past the end of the buffer"
                      : "of no buffer");
}

extern "C" void msl_check_group(Worker *w) {
  w->groupStart = ++w->clock;
  w->barrier[0] = w->barrier[1] = 0;
  for (u32 i = 0; i < w->simdgroups; i++) w->simdgroup[i].barrier[0] = w->simdgroup[i].barrier[1] = 0;
  Lines *l = w->lines;
  if (l->loads) flushLoads(l);
  for (; l->sites; l->sites--) memset(&l->site[l->used[l->sites - 1]], 0, sizeof(Site));
}

static void clearBits(u64 *bits, u64 low, u64 high) {
  if (bits && low < high) memset(bits + low / 64, 0, ((high + 63) / 64 - low / 64) * 8);
}

extern "C" void msl_check_end(Worker *w) {
  flushLoads(w->lines);
  for (u32 i = 0; i < w->dispatch->regionCount; i++) {
    Region *r = &w->dispatch->regions[i];
    clearBits(r->seen, r->low, r->high);
    clearBits(r->put, r->putLow, r->putHigh);
  }
}

void msl_rt::msl_access(const void *p, u64 size, u32 kind, const void *pc) { access((u64)p, size, kind, (u64)pc); }

// ---- hooks of -fsanitize=thread ----

#define PC (u64)__builtin_return_address(0)
#define HOOK extern "C" __attribute__((visibility("hidden")))
#define SIZED(n)                                                                                        \
  HOOK void __tsan_read##n(void *p) { access((u64)p, n, kRead, PC); }                                   \
  HOOK void __tsan_write##n(void *p) { access((u64)p, n, kWrite, PC); }                                 \
  HOOK void __tsan_unaligned_read##n(void *p) { access((u64)p, n, kRead, PC); }                         \
  HOOK void __tsan_unaligned_write##n(void *p) { access((u64)p, n, kWrite, PC); }                       \
  HOOK void __tsan_read_write##n(void *p) { access((u64)p, n, kRead, PC), access((u64)p, n, kWrite, PC); } \
  HOOK void __tsan_unaligned_read_write##n(void *p) { access((u64)p, n, kRead, PC), access((u64)p, n, kWrite, PC); }
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)
HOOK void __tsan_init() {}
HOOK void __tsan_func_entry(void *) {}
HOOK void __tsan_func_exit() {}
HOOK void __tsan_read_range(void *p, u64 n) { access((u64)p, n, kRead, PC); }
HOOK void __tsan_write_range(void *p, u64 n) { access((u64)p, n, kWrite, PC); }
HOOK void *__tsan_memcpy(void *to, const void *from, u64 n) {
  access((u64)from, n, kRead, PC), access((u64)to, n, kWrite, PC);
  return memcpy(to, from, n);
}
HOOK void *__tsan_memmove(void *to, const void *from, u64 n) {
  access((u64)from, n, kRead, PC), access((u64)to, n, kWrite, PC);
  return memmove(to, from, n);
}
HOOK void *__tsan_memset(void *to, int value, u64 n) {
  access((u64)to, n, kWrite, PC);
  return memset(to, value, n);
}

// ---- hooks of -fsanitize=alignment,array-bounds,... ----

namespace {
struct Source {
  const char *file;
  u32 line, column;
};
}

static void undefined(Fault kind, const Source *s, long value, const char *detail, bool fatal) {
  Worker *w = self();
  Report r = {};
  r.kind = kind, r.file = s->file, r.at = s->line * 1024 + (s->column & 1023), r.offset = value, r.detail = detail;
  r.buffer = -1;
  msl_report(w, &r);
  if (fatal) msl_stop(w);
}

HOOK void __ubsan_handle_type_mismatch_v1(Source *s, u64 p) {
  undefined(kMisaligned, s, (long)p, p ? "the address is not a multiple of the type's alignment" : "null pointer",
            p == 0);
}
HOOK void __ubsan_handle_out_of_bounds(Source *s, u64 i) {
  undefined(kIndex, s, (long)i, "array index out of bounds", true);
}
HOOK void __ubsan_handle_shift_out_of_bounds(Source *s, u64, u64 by) {
  undefined(kArithmetic, s, (long)by, "shift by more than the type has", false);
}
HOOK void __ubsan_handle_divrem_overflow(Source *s, u64, u64) {
  undefined(kArithmetic, s, 0, "division by zero or overflow", true);
}
HOOK void __ubsan_handle_add_overflow(Source *s, u64, u64) {
  undefined(kArithmetic, s, 0, "signed addition overflows", false);
}
HOOK void __ubsan_handle_sub_overflow(Source *s, u64, u64) {
  undefined(kArithmetic, s, 0, "signed subtraction overflows", false);
}
HOOK void __ubsan_handle_mul_overflow(Source *s, u64, u64) {
  undefined(kArithmetic, s, 0, "signed multiplication overflows", false);
}
HOOK void __ubsan_handle_negate_overflow(Source *s, u64) { undefined(kArithmetic, s, 0, "negation overflows", false); }
HOOK void __ubsan_handle_builtin_unreachable(Source *s) {
  undefined(kArithmetic, s, 0, "this cannot be reached, but was", true);
}
HOOK void __ubsan_handle_missing_return(Source *s) {
  undefined(kArithmetic, s, 0, "the function ends without a value", true);
}
HOOK void __ubsan_handle_float_cast_overflow(Source *s, u64) {
  undefined(kArithmetic, s, 0, "the number does not fit the integer type", false);
}
