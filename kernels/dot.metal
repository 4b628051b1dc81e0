// Matrix times a few rows: the products of up to 8 rows of activations share one pass over the weights.
//
// A threadgroup takes so many weight rows that its copy of the activations is small beside them; each simdgroup takes
// TileRows of them at a time. Every byte of them is fetched once, whatever T is: those of quantised rows pass through
// threadgroup memory, as blocks of 18 to 210 bytes cannot be read where they are without touching some lines of memory
// several times. What lane l of a simdgroup adds up is fixed by the type of the weights alone, and the
// lanes are joined by simd_sum: so a result does not depend on T, on the number of threads, or on how the columns are
// cut into chunks.

// Activations in device memory, [.., stride], of which row[t] is row t of the T.
template <ushort T> struct Rows {
  device const float *x;
  uint stride, n; // n ≤ T rows are there; the rest is computed as zeros and dropped
  uint row[T];

  // Copies columns [from, from + count) to threadgroup memory, with zeros up to a whole step.
  void stage(threadgroup float *to, uint from, uint count, uint tid, uint threads) const {
    const uint width = (count + StepColumns - 1) / StepColumns * StepColumns;
    for (ushort t = 0; t < T; t++) {
      device const float *src = x + ulong(row[t]) * stride + from;
      for (uint c = tid; c < width; c += threads) {
        to[t * width + c] = t < n && c < count ? src[c] : 0.0f;
      }
    }
  }
};

// Rows 0 to n - 1 of x.
template <ushort T> inline Rows<T> first_rows(device const float *x, uint stride, uint n) {
  Rows<T> in;
  in.x = x;
  in.stride = stride;
  in.n = n;
  for (ushort t = 0; t < T; t++) {
    in.row[t] = t;
  }
  return in;
}

// Weight rows that a simdgroup takes together: row[0] to row[rows - 1]. They begin at row[i] + begin of the matrix at
// w; lead is how far w is from a multiple of 128 bytes.
struct Tile {
  device const uchar *w;
  ulong row[TileRows]; // bytes from w
  uint rows;           // 0: it only takes part in the barriers
  uint lead;
};

// Rows first to first + TileRows - 1 of a matrix, those before end.
inline Tile rows_tile(device const uchar *w, uint lead, uint row_bytes, uint first, uint end) {
  Tile t;
  t.w = w;
  t.lead = lead;
  t.rows = first < end ? min(end - first, uint(TileRows)) : 0;
  for (ushort r = 0; r < TileRows; r++) {
    t.row[r] = ulong(first + r) * row_bytes;
  }
  return t;
}

// A stream of bytes from device memory through a ring in threadgroup memory, half a ring at a time: every lane fetches
// 16 bytes, 512 beside each other from a multiple of 128 on, and those of the half after next while this one is in use.
struct Stream {
  device const uchar *line; // where the first half begins, on a line of 128 bytes
  threadgroup uchar *ring;
  uint begin, end;          // what is wanted, in bytes from line
  uint have;                // halves that are in the ring, or were
  uint4 next;               // this lane's 16 bytes of the half after them

  void fetch(ushort lane) {
    const uint i = have * (RingBytes / 2) + lane * 16;
    next = i < end && i + 16 > begin ? *(device const uint4 *)(line + i) : uint4(0);
  }
  // Begins with bytes [from, to) of the matrix at w.
  void open(device const uchar *w, uint lead, ulong from, ulong to, ushort lane) {
    const ulong at = lead + from, first = at / 128 * 128;
    line = w + (first - lead);
    begin = uint(at - first);
    end = begin + uint(to - from);
    have = 0;
    fetch(lane);
  }
  // Makes sure of the bytes up to last, counted from line; no more than half a ring before them is still needed.
  void need(uint last, ushort lane) {
    while (have * (RingBytes / 2) < last) {
      simdgroup_barrier(mem_flags::mem_threadgroup); // the half that goes is done with
      *(threadgroup uint4 *)(ring + have % 2 * (RingBytes / 2) + lane * 16) = next;
      have++;
      fetch(lane);
      simdgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
};

// sum[r][t] += row r · columns [from, from + count) of x[t], this lane's share. Rows that follow each other are one
// stream where all columns are taken.
template <typename W, ushort T>
inline void multiply(W w, thread float (&sum)[TileRows][T], thread const Tile &tile, threadgroup const float *x,
                     threadgroup uchar *ring, uint from, uint count, uint cols, ushort lane) {
  const uint width = (count + StepColumns - 1) / StepColumns * StepColumns;
  const ushort first = w.first(lane), second = w.second(lane);
  const ulong before = ulong(from / StepColumns) * W::StepBytes;
  const uint bytes = row_bytes(w, count);
  Stream s;
  s.ring = ring;
  uint at = 0; // where the row begins, in bytes from s.line
  for (ushort r = 0; r < TileRows; r++) {
    if (r >= tile.rows) {
      break;
    }
    if (r > 0 && count == cols && tile.row[r] == tile.row[r - 1] + bytes) {
      at += bytes;
    } else {
      uint run = 1;
      while (count == cols && r + run < tile.rows && tile.row[r + run] == tile.row[r] + run * bytes) {
        run++;
      }
      s.open(tile.w, tile.lead, tile.row[r] + before, tile.row[r] + before + run * bytes, lane);
      at = s.begin;
    }
    for (uint c = 0; c < count; c += StepColumns) {
      const uint step = at + c / StepColumns * W::StepBytes;
      s.need(min(step + W::StepBytes, at + bytes), lane);
      Unit u;
      if (c + first < count) {
        Ring p;
        p.ring = ring;
        p.begin = step;
        w.load(u, p, lane);
      } else {
        nothing(u);
      }
      for (ushort t = 0; t < T; t++) {
        threadgroup const float *xt = x + t * width + c;
        sum[r][t] = w.dot(u, *(threadgroup const float4 *)(xt + first), *(threadgroup const float4 *)(xt + second),
                          sum[r][t]);
      }
    }
  }
}

// The same for weights that are numbers by themselves: lanes read them side by side where they are.
template <typename E, ushort T>
inline void multiply(Plain<E> w, thread float (&sum)[TileRows][T], thread const Tile &tile, threadgroup const float *x,
                     threadgroup uchar *, uint from, uint count, uint cols, ushort lane) {
  const uint width = (count + StepColumns - 1) / StepColumns * StepColumns;
  const ushort first = w.first(lane), second = w.second(lane);
  for (uint c = 0; c < count; c += StepColumns) {
    Unit u[TileRows];
    for (ushort r = 0; r < TileRows; r++) {
      if (r < tile.rows) {
        w.load(u[r], tile.w + tile.row[r], from + c, cols, lane);
      } else {
        nothing(u[r]);
      }
    }
    for (ushort t = 0; t < T; t++) {
      threadgroup const float *xt = x + t * width + c;
      const float4 x0 = *(threadgroup const float4 *)(xt + first), x1 = *(threadgroup const float4 *)(xt + second);
      for (ushort r = 0; r < TileRows; r++) {
        sum[r][t] = w.dot(u[r], x0, x1, sum[r][t]);
      }
    }
  }
}

// What the threads of a threadgroup share in a mat-vec, and who this one is.
struct Place {
  threadgroup float *x;     // [T][chunk]: staged activations
  threadgroup uchar *rings; // RingBytes for each simdgroup
  uint tid, threads;
  ushort sg, groups, lane;
};

inline Place place(threadgroup float *x, threadgroup uchar *rings, uint tid, uint threads, ushort sg, ushort groups,
                   ushort lane) {
  Place p;
  p.x = x;
  p.rings = rings;
  p.tid = tid;
  p.threads = threads;
  p.sg = sg;
  p.groups = groups;
  p.lane = lane;
  return p;
}

// out[t][r] = row r · x[t] for the rows of a tile. In is Rows<T> or what else can stage. Called by all threads of a
// threadgroup. If all columns fit into p.x it is filled only when fresh.
template <typename W, ushort T, typename In>
inline void dot_rows(threadgroup float *out, uint out_stride, thread const Tile &tile, thread const In &in, bool fresh,
                     uint cols, uint chunk, thread const Place &p) {
  float sum[TileRows][T];
  for (ushort r = 0; r < TileRows; r++) {
    for (ushort t = 0; t < T; t++) {
      sum[r][t] = 0.0f;
    }
  }
  for (uint from = 0; from < cols; from += chunk) {
    const uint count = min(chunk, cols - from);
    if (fresh || chunk < cols) {
      threadgroup_barrier(mem_flags::mem_threadgroup); // the chunk before is done with
      in.stage(p.x, from, count, p.tid, p.threads);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (tile.rows > 0) {
      multiply(W(), sum, tile, p.x, p.rings + p.sg * RingBytes, from, count, cols, p.lane);
    }
  }
  if (tile.rows == 0) {
    return;
  }
  for (ushort r = 0; r < TileRows; r++) {
    for (ushort t = 0; t < T; t++) {
      const float total = simd_sum(sum[r][t]);
      if (p.lane == 0 && r < tile.rows) {
        out[t * out_stride + r] = total;
      }
    }
  }
}

// scale[t] = 1/rms of row t of x, by as many simdgroups as there are. dot_rows has the barrier before it can be read.
template <ushort T>
inline void scale_rows(threadgroup float *scale, device const float *squares, thread const Rows<T> &in, uint parts,
                       float eps, thread const Place &p) {
  for (ushort t = 0; t < T; t++) {
    if (t % p.groups == p.sg && t < in.n) {
      const float r = inverse_rms(squares + in.row[t] * parts, parts, in.stride, eps, p.lane);
      if (p.lane == 0) {
        scale[t] = r;
      }
    }
  }
}

// Makes the kernel NAME_TYPE_ROWS for 1, 4 and 8 rows, or NAME_TYPE. The source is compiled for one type of weights,
// which is then WEIGHT, and WEIGHT_NAME in names; without one, only the kernels that read no weights are there.
#ifdef WEIGHT
#define EACH_ROWS(kernel_name) EXPANDED_ROWS(kernel_name, WEIGHT, WEIGHT_NAME)
#define EACH_TYPE(kernel_name) EXPANDED_TYPE(kernel_name, WEIGHT, WEIGHT_NAME)
#else
#define EACH_ROWS(kernel_name)
#define EACH_TYPE(kernel_name)
#endif
#define EXPANDED_ROWS(kernel_name, W, w) ROWS_OF(kernel_name, W, w)
#define EXPANDED_TYPE(kernel_name, W, w) TYPE_OF(kernel_name, W, w)
#define ROWS_OF(kernel_name, W, w)                                                                                     \
  FOR_ROWS(kernel_name, W, 1, kernel_name##_##w##_1)                                                                   \
  FOR_ROWS(kernel_name, W, 4, kernel_name##_##w##_4)                                                                   \
  FOR_ROWS(kernel_name, W, 8, kernel_name##_##w##_8)
#define TYPE_OF(kernel_name, W, w) FOR_TYPE(kernel_name, W, kernel_name##_##w)
#define FOR_ROWS(kernel_name, W, T, name)                                                                              \
  template [[host_name(#name)]] kernel decltype(kernel_name<W, T>) kernel_name<W, T>;
#define FOR_TYPE(kernel_name, W, name) template [[host_name(#name)]] kernel decltype(kernel_name<W>) kernel_name<W>;
