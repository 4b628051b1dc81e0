// Calls with and without MTLSize, for clang to show how Apple's processors pass it.
typedef unsigned long NSUInteger;
typedef struct { NSUInteger width, height, depth; } MTLSize;
@protocol Metal
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads;
- (MTLSize)maxThreadsPerThreadgroup;
- (double)GPUStartTime;
@end
void dispatch(id<Metal> o, MTLSize *s) { [o dispatchThreadgroups:s[0] threadsPerThreadgroup:s[1]]; }
MTLSize size(id<Metal> o) { return [o maxThreadsPerThreadgroup]; }
double seconds(id<Metal> o) { return [o GPUStartTime]; }
