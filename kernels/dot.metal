// Matrix times a few rows: the products of up to 8 rows of activations share one pass over the weights.
//
// A threadgroup takes so many weight rows, keeps the activations in threadgroup memory, and divides the work into
// tiles of TileRows weight rows and, where there are few tiles, into parts of the columns. A simdgroup takes a tile and
// a part at a time. It goes through the columns in steps: each lane fetches what it needs of all rows of the tile,
// where it lies, and then its columns of the activations, which all these rows share. Where less than a step is left,
// the rows are divided among the lanes.
//
// What lane l of a simdgroup adds up, and in which order, is fixed by the type and the shape of the matrix. The lanes
// are joined by simd_sum and the parts one after the other: so a result does not depend on T, on the number of threads,
// or on how much of the activations is in threadgroup memory at a time.

// Activations in threadgroup memory come in rows of whole float4s.
inline uint staged_width(uint count) { return (count + 3) / 4 * 4; }

// Activations in device memory, [.., stride], of which row[t] is row t of the T.
template <ushort T> struct Rows {
  device const float *x;
  uint stride, n; // n ≤ T rows are there; the rest is computed as zeros and dropped
  uint row[T];

  // Copies columns [from, from + count) to threadgroup memory, with zeros up to a whole float4.
  void stage(threadgroup float *to, uint from, uint count, uint tid, uint threads) const {
    const uint width = staged_width(count);
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

// Weight rows that a simdgroup takes together. Where fewer than TileRows are left, the last one fills the tile up.
struct Tile {
  device const uchar *w;  // row 0
  uint row[TileRows];     // bytes from w
  uint rows;              // how many count; 0: the simdgroup only takes part in the barriers
};

// Rows first to first + TileRows - 1 of a matrix, those before end.
inline Tile rows_tile(device const uchar *w, uint row_bytes, uint first, uint end) {
  Tile t;
  t.rows = first < end ? min(end - first, uint(TileRows)) : 0;
  t.w = w + ulong(t.rows > 0 ? first : 0) * row_bytes;
  for (ushort r = 0; r < TileRows; r++) {
    t.row[r] = min(uint(r), max(t.rows, 1u) - 1) * row_bytes;
  }
  return t;
}

// Rows of a tile that a simdgroup takes at a time: for many rows of activations only half of them, so that their sums
// and numbers find room in registers.
template <ushort T> struct Abreast {
  enum : ushort { rows = T < 4 ? TileRows : TileRows / 2 };
};

// sum[of + r][t] += unit h of row of + r · x[t]; xs is where the columns of the unit are in row 0 of x.
template <typename W, ushort T, ushort R, ushort N>
inline void multiply_unit(W w, thread float (&sum)[N][T], ushort of, thread const Raw (&raw)[R], ushort h,
                          threadgroup const float *xs, uint stride, ushort lane) {
  Unit u[R];
  for (ushort r = 0; r < R; r++) {
    w.unit(u[r], raw[r], h, lane);
  }
  for (ushort t = 0; t < T; t++) {
    const float4 x0 = *(threadgroup const float4 *)(xs + t * stride);
    const float4 x1 = *(threadgroup const float4 *)(xs + t * stride + 4);
    const float total = W::Least ? sum4(x0) + sum4(x1) : 0.0f;
    for (ushort r = 0; r < R; r++) {
      sum[of + r][t] = w.dot(u[r], x0, x1, total, sum[of + r][t]);
    }
  }
}

// sum[of + r][t] += row of + r · x[t] over count columns from byte at of the rows on, this lane's share, for R rows. x
// holds the columns from column skip of the first step on.
template <typename W, ushort T, ushort R>
inline void multiply_steps(W w, thread float (&sum)[TileRows][T], ushort of, thread const Tile &tile, uint at,
                           uint count, threadgroup const float *x, uint stride, ushort skip, ushort lane) {
  const ushort first = w.first(lane) - skip, second = w.second(lane) - skip;
  for (uint c = 0; c + first < count; c += StepColumns) { // a row may end within a step, but not within a block
    Raw raw[R];
    for (ushort r = 0; r < R; r++) {
      w.load(raw[r], tile.w, tile.row[of + r] + at, lane);
    }
    at += W::StepBytes;
    multiply_unit<W, T, R>(w, sum, of, raw, 0, x + c + first, stride, lane);
    multiply_unit<W, T, R>(w, sum, of, raw, 1, x + c + second, stride, lane);
  }
}

// The same for what is left of all rows: 1, 2 or 3 times TailColumns, which would leave lanes of a step idle. Lanes 0
// to 15 take rows 0 and 2, the others rows 1 and 3. In the last TailColumns 8 lanes are enough for a row: lanes 0 to 7
// take row 0, the next ones 2, 1 and 3. All is fetched before anything is multiplied.
template <typename W, ushort T>
inline void multiply_tail(W w, thread float (&sum)[TileRows][T], thread const Tile &tile, uint at, uint count,
                          threadgroup const float *x, uint stride, ushort skip, ushort lane) {
  const bool odd = lane >= 16, lower = lane % 16 < 8, half_step = count > TailColumns;
  const bool quarter_step = count / TailColumns % 2 > 0;
  const uint row = (odd ? tile.row[1] : tile.row[0]) + at, next = (odd ? tile.row[3] : tile.row[2]) + at;
  const ushort a = skip / 16 + lane % 16, b = skip / 16 + (half_step ? 16 : 0) + lane % 8;
  Raw raw[2], last[1];
  if (half_step) {
    w.load(raw[0], tile.w, row, a);
    w.load(raw[1], tile.w, next, a);
  }
  if (quarter_step) {
    w.load(last[0], tile.w, lower ? row : next, b);
  }
  float own[3][T];
  for (ushort t = 0; t < T; t++) {
    own[0][t] = own[1][t] = own[2][t] = 0.0f;
  }
  if (half_step) {
    multiply_unit<W, T, 2>(w, own, 0, raw, 0, x + (w.first(a) - skip), stride, a);
    multiply_unit<W, T, 2>(w, own, 0, raw, 1, x + (w.second(a) - skip), stride, a);
  }
  if (quarter_step) {
    multiply_unit<W, T, 1>(w, own, 2, last, 0, x + (w.first(b) - skip), stride, b);
    multiply_unit<W, T, 1>(w, own, 2, last, 1, x + (w.second(b) - skip), stride, b);
    for (ushort t = 0; t < T; t++) {
      own[0][t] += lower ? own[2][t] : 0.0f;
      own[1][t] += lower ? 0.0f : own[2][t];
    }
  }
  for (ushort r = 0; r < TileRows; r++) {
    for (ushort t = 0; t < T; t++) {
      sum[r][t] += odd == (r % 2 > 0) ? own[r / 2][t] : 0.0f;
    }
  }
}

// sum[r][t] += row r · x[t] over columns [from, to), this lane's share. from is a multiple of TailColumns; x holds
// these columns of row t from t · stride on. As blocks may have 256 columns, lanes are counted from the start of one.
template <typename W, ushort T>
inline void multiply(W w, thread float (&sum)[TileRows][T], thread const Tile &tile, threadgroup const float *x,
                     uint stride, uint from, uint to, ushort lane) {
  const ushort half_tile = Abreast<T>::rows, skip = from % (StepColumns / 2), l = lane + skip / 16;
  const uint at = from / (StepColumns / 2) * (W::StepBytes / 2);
  const uint all = to - from, steps = all / StepColumns + (all % TailColumns > 0 ? 1 : 0);
  const uint count = min(all, steps * StepColumns);
  multiply_steps<W, T, Abreast<T>::rows>(w, sum, 0, tile, at, count, x, stride, skip, l);
  if (half_tile < TileRows) {
    multiply_steps<W, T, Abreast<T>::rows>(w, sum, TileRows - half_tile, tile, at, count, x, stride, skip, l);
  }
  if (count < all) {
    multiply_tail<W, T>(w, sum, tile, at + steps * W::StepBytes, all - count, x + count, stride, skip, lane);
  }
}

// The same for weights that are numbers by themselves. Of each quarter of a step, lane l takes columns 4 l to 4 l + 3,
// so that lanes read side by side. A row may end within a quarter.
template <typename E, ushort T>
inline void multiply(Plain<E> w, thread float (&sum)[TileRows][T], thread const Tile &tile, threadgroup const float *x,
                     uint stride, uint from, uint to, ushort lane) {
  for (uint c = from + lane * 4; c < to; c += StepColumns / 2) {
    const bool two = c + StepColumns / 4 < to;
    float4 a[TileRows], b[TileRows];
    for (ushort r = 0; r < TileRows; r++) {
      a[r] = w.at(tile.w + tile.row[r], c);
    }
    if (two) {
      for (ushort r = 0; r < TileRows; r++) {
        b[r] = w.at(tile.w + tile.row[r], c + StepColumns / 4);
      }
    }
    for (ushort t = 0; t < T; t++) {
      const float4 xt = *(threadgroup const float4 *)(x + t * stride + (c - from));
      for (ushort r = 0; r < TileRows; r++) {
        sum[r][t] = dot4(a[r], xt, sum[r][t]);
      }
    }
    if (two) {
      for (ushort t = 0; t < T; t++) {
        const float4 xt = *(threadgroup const float4 *)(x + t * stride + (c - from) + StepColumns / 4);
        for (ushort r = 0; r < TileRows; r++) {
          sum[r][t] = dot4(b[r], xt, sum[r][t]);
        }
      }
    }
  }
}

// How the columns of a matrix are divided. Parts and share depend on its shape alone, the rest on what fits into
// threadgroup memory.
struct Cut {
  uint cols;
  uint parts;   // of the columns
  uint share;   // columns of a part, a multiple of TailColumns
  uint abreast; // so many parts at a time, each by a simdgroup of its own
  uint chunk;   // columns of each of these in threadgroup memory at a time: share, or less in whole steps

  // Where a chunk of a part ends that begins after so many columns of it.
  uint end(uint part, uint begin) const {
    return min(min(part * share + begin + chunk, (part + 1) * share), cols);
  }
};
inline Cut cut_of(uint cols, uint parts, uint share, uint abreast, uint chunk) {
  Cut c;
  c.cols = cols;
  c.parts = parts;
  c.share = share;
  c.abreast = abreast;
  c.chunk = chunk;
  return c;
}

// What the threads of a threadgroup share in a mat-vec, and who this one is.
struct Place {
  threadgroup float *x; // staged activations
  uint tid, threads;
  ushort sg, groups, lane;
};

inline Place place(threadgroup float *x, uint tid, uint threads, ushort sg, ushort groups, ushort lane) {
  Place p;
  p.x = x;
  p.tid = tid;
  p.threads = threads;
  p.sg = sg;
  p.groups = groups;
  p.lane = lane;
  return p;
}

// Simdgroups go through this many tiles with parts abreast, more than there are where that keeps them at the same
// barriers.
inline uint jobs(uint tiles, thread const Cut &cut, thread const Place &p) {
  return (tiles * cut.abreast + p.groups - 1) / p.groups * p.groups;
}

// out[part][t][r] = row r · x[t] for the rows of a tile and the parts of the columns that are number mine of those
// abreast. In is Rows<T> or what else can stage. Called by all threads of a threadgroup. If all columns fit into p.x it
// is filled only when fresh.
template <typename W, ushort T, typename In>
inline void dot_rows(threadgroup float *out, uint part_stride, uint row_stride, thread const Tile &tile, uint mine,
                     thread const In &in, bool fresh, thread const Cut &cut, thread const Place &p) {
  // If all columns are in p.x, the parts follow each other in its rows. Otherwise each part has its own rows there,
  // T · chunk after those of the part before.
  const bool whole = cut.abreast == cut.parts && cut.chunk >= cut.share;
  for (uint first = 0; first < cut.parts; first += cut.abreast) {
    float sum[TileRows][T];
    for (ushort r = 0; r < TileRows; r++) {
      for (ushort t = 0; t < T; t++) {
        sum[r][t] = 0.0f;
      }
    }
    const uint part = first + mine;
    for (uint begin = 0; begin < cut.share; begin += cut.chunk) {
      if (!whole) {
        threadgroup_barrier(mem_flags::mem_threadgroup); // the chunk before is done with
      }
      for (uint i = 0; i < (whole ? uint(fresh) : cut.abreast); i++) {
        const uint from = (first + i) * cut.share + begin, to = whole ? cut.cols : cut.end(first + i, begin);
        in.stage(p.x + i * T * cut.chunk, from, max(from, to) - from, p.tid, p.threads);
      }
      if (fresh || !whole) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
      const uint from = part * cut.share + begin, to = cut.end(part, begin);
      if (tile.rows > 0 && from < to) {
        multiply(W(), sum, tile, p.x + (whole ? from : mine * T * cut.chunk),
                 staged_width(whole ? cut.cols : to - from), from, to, p.lane);
      }
    }
    for (ushort r = 0; r < TileRows; r++) {
      for (ushort t = 0; t < T; t++) {
        const float total = simd_sum(sum[r][t]);
        if (p.lane == 0 && r < tile.rows) {
          out[part * part_stride + t * row_stride + r] = total;
        }
      }
    }
  }
}

// Adds up the parts of a product in their order; those of one part are size after those of the one before.
inline float joined(threadgroup const float *found, uint parts, uint size) {
  float sum = found[0];
  for (uint i = 1; i < parts; i++) {
    sum += found[i * size];
  }
  return sum;
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

// Makes the kernel NAME_TYPE_ROWS for 1, 2, 4 and 8 rows, or NAME_TYPE. The source is compiled for one type of weights,
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
  FOR_ROWS(kernel_name, W, 2, kernel_name##_##w##_2)                                                                   \
  FOR_ROWS(kernel_name, W, 4, kernel_name##_##w##_4)                                                                   \
  FOR_ROWS(kernel_name, W, 8, kernel_name##_##w##_8)
#define TYPE_OF(kernel_name, W, w) FOR_TYPE(kernel_name, W, kernel_name##_##w)
#define FOR_ROWS(kernel_name, W, T, name)                                                                              \
  template [[host_name(#name)]] kernel decltype(kernel_name<W, T>) kernel_name<W, T>;
#define FOR_TYPE(kernel_name, W, name) template [[host_name(#name)]] kernel decltype(kernel_name<W>) kernel_name<W>;
