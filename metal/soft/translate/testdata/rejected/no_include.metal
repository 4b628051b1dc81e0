using namespace metal; // error: does not #include
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }
