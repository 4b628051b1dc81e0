// h = x/rms(x) ⊙ g; y = W h for up to four matrices W, whose outputs lie beside each other in a row of y.  x comes as
// g·x and the parts of Σ x². The matrices are numbered, each from a new threadgroup on.
struct ProjectArgs {
  uint rows; // of activations
  uint cols;
  uint row_bytes[4];
  uint outs[4];
  uint groups[4]; // threadgroups for each
  uint column[4]; // of y where the outputs of each begin
  uint stride;    // columns of y
  uint group_rows; // weight rows that a threadgroup takes
  uint parts; // of the columns: these four are those of Cut
  uint share;
  uint abreast;
  uint chunk;
  uint square_parts; // of Σ x²
  float eps;
};

// Where one threadgroup works: in matrix m, on rows [first, end).
struct ProjectPart {
  uint m, first, end;
};

inline ProjectPart project_part(constant ProjectArgs &a, uint group) {
  ProjectPart p;
  p.m = 0;
  while (p.m < 3 && group >= a.groups[p.m]) {
    group -= a.groups[p.m];
    p.m++;
  }
  p.first = group * a.group_rows;
  p.end = min(p.first + a.group_rows, a.outs[p.m]);
  return p;
}

template <typename W, ushort T>
kernel void project(device const uchar *w0 [[buffer(0)]], device const uchar *w1 [[buffer(1)]],
                    device const uchar *w2 [[buffer(2)]], device const uchar *w3 [[buffer(3)]],
                    device const float *x [[buffer(4)]], device const float *squares [[buffer(5)]],
                    device float *y [[buffer(6)]], constant ProjectArgs &a [[buffer(7)]],
                    threadgroup float *staged [[threadgroup(0)]], threadgroup float *found [[threadgroup(1)]],
                    uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                    uint threads [[threads_per_threadgroup]], ushort sg [[simdgroup_index_in_threadgroup]],
                    ushort groups [[simdgroups_per_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float scale[T];
  const ProjectPart part = project_part(a, group);
  device const uchar *w = part.m == 0 ? w0 : part.m == 1 ? w1 : part.m == 2 ? w2 : w3;
  const Place at = place(staged, tid, threads, sg, groups, lane);
  const Cut cut = cut_of(a.cols, a.parts, a.share, a.abreast, a.chunk);
  const Rows<T> in = first_rows<T>(x, a.cols, a.rows);
  scale_rows<T>(scale, squares, in, a.square_parts, a.eps, at);
  const uint tiles = a.group_rows / TileRows, size = T * a.group_rows;
  for (uint j = sg; j < jobs(tiles, cut, at); j += groups) {
    const uint i = j / a.abreast;
    const Tile tile = rows_tile(w, a.row_bytes[part.m], part.first + i * TileRows, i < tiles ? part.end : 0);
    dot_rows<W, T>(found + i * TileRows, size, a.group_rows, tile, j % a.abreast, in, j == sg, cut, at);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = tid; i < a.rows * a.group_rows; i += threads) {
    const uint t = i / a.group_rows, row = part.first + i % a.group_rows;
    if (row < part.end) {
      y[ulong(t) * a.stride + a.column[part.m] + row] = joined(found + i, a.parts, size) * scale[t];
    }
  }
}
EACH_ROWS(project)

template <typename W>
kernel void project_wide(device const uchar *w0 [[buffer(0)]], device const uchar *w1 [[buffer(1)]],
                         device const uchar *w2 [[buffer(2)]], device const uchar *w3 [[buffer(3)]],
                         device const float *x [[buffer(4)]], device const float *squares [[buffer(5)]],
                         device float *y [[buffer(6)]], constant ProjectArgs &a [[buffer(7)]],
                         uint2 group [[threadgroup_position_in_grid]], ushort tid [[thread_index_in_threadgroup]],
                         ushort sg [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float out[WideRows * WideOuts], scale[WideRows];
  const ProjectPart part = project_part(a, group.x);
  device const uchar *w = part.m == 0 ? w0 : part.m == 1 ? w1 : part.m == 2 ? w2 : w3;
  const uint t0 = group.y * WideRows;
  wide_scales(scale, squares, t0, a.rows, a.square_parts, a.cols, a.eps, sg, lane);
  WideTile tile;
  for (ushort i = 0; i < WideMine; i++) {
    tile.row[i] = w + ulong(min(part.first + wide_row(tid, i), part.end - 1)) * a.row_bytes[part.m];
  }
  wide_product<W>(out, tile, x, t0, a.rows, a.cols, tid, sg);
  for (uint i = tid; i < WideRows * WideOuts; i += WideThreads) {
    const uint t = i / WideOuts, row = part.first + i % WideOuts;
    if (t0 + t < a.rows && row < part.end) {
      y[ulong(t0 + t) * a.stride + a.column[part.m] + row] = out[i] * scale[t];
    }
  }
}
EACH_TYPE(project_wide)
