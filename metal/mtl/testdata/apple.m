// The methods that metal/mtl calls, declared with the types that Apple's documentation gives them, for clang to say how
// the Objective-C runtime of a Mac describes them. Enumerations stand as the integers that they are made of.
typedef unsigned long NSUInteger;
typedef long NSInteger;
#if defined(__arm64__)
typedef _Bool BOOL;
#else
typedef signed char BOOL;
#endif
typedef struct { NSUInteger width, height, depth; } MTLSize;
typedef struct _NSRange { NSUInteger location, length; } NSRange;

@protocol NSObject
- (oneway void)release;
- (id)retain;
- (BOOL)respondsToSelector:(SEL)selector;
- (id)init;
+ (id)alloc;
@end
@protocol NSString
+ (id)stringWithUTF8String:(const char *)text;
- (const char *)UTF8String;
@end
@protocol NSError
- (id)localizedDescription;
@end
@protocol MTLDevice
- (id)name;
- (NSUInteger)maxBufferLength;
- (NSUInteger)maxThreadgroupMemoryLength;
- (MTLSize)maxThreadsPerThreadgroup;
- (id)newBufferWithLength:(NSUInteger)length options:(NSUInteger)options;
- (id)newBufferWithBytesNoCopy:(void *)bytes
                        length:(NSUInteger)length
                       options:(NSUInteger)options
                   deallocator:(void (^)(void *, NSUInteger))deallocator;
- (id)newCommandQueue;
- (id)newComputePipelineStateWithFunction:(id)function error:(id *)error;
- (id)newFence;
- (id)newLibraryWithSource:(id)source options:(id)options error:(id *)error;
- (id)newResidencySetWithDescriptor:(id)descriptor error:(id *)error;
- (BOOL)supportsFamily:(NSInteger)family;
@end
@protocol MTLCompileOptions
- (BOOL)fastMathEnabled;
- (NSUInteger)languageVersion;
- (NSInteger)mathFloatingPointFunctions;
- (NSInteger)mathMode;
- (void)setFastMathEnabled:(BOOL)enabled;
- (void)setLanguageVersion:(NSUInteger)version;
- (void)setMathFloatingPointFunctions:(NSInteger)functions;
- (void)setMathMode:(NSInteger)mode;
@end
@protocol MTLBuffer
- (void *)contents;
@end
@protocol MTLLibrary
- (id)newFunctionWithName:(id)name;
- (id)newFunctionWithName:(id)name constantValues:(id)values error:(id *)error;
@end
@protocol MTLFunctionConstantValues
- (void)setConstantValue:(const void *)value type:(NSUInteger)type atIndex:(NSUInteger)index;
@end
@protocol MTLComputePipelineState
- (NSUInteger)maxTotalThreadsPerThreadgroup;
- (NSUInteger)staticThreadgroupMemoryLength;
- (NSUInteger)threadExecutionWidth;
@end
@protocol MTLCommandQueue
- (void)addResidencySet:(id)set;
- (id)commandBufferWithUnretainedReferences;
@end
@protocol MTLResidencySet
- (void)addAllocation:(id)allocation;
- (void)commit;
- (void)endResidency;
- (void)removeAllocation:(id)allocation;
- (void)requestResidency;
@end
@protocol MTLCommandBuffer
- (void)commit;
- (id)computeCommandEncoderWithDispatchType:(NSUInteger)type;
- (id)error;
- (double)GPUEndTime;
- (double)GPUStartTime;
- (NSUInteger)status;
- (void)waitUntilCompleted;
@end
@protocol MTLCommandEncoder
- (void)endEncoding;
@end
@protocol MTLComputeCommandEncoder
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads;
- (void)memoryBarrierWithScope:(NSUInteger)scope;
- (void)setBuffer:(id)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setBuffers:(const id[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range;
- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setComputePipelineState:(id)state;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)updateFence:(id)fence;
- (void)waitForFence:(id)fence;
@end

// A protocol is described where it is used.
void use(id);
void all(void) {
  use(@protocol(NSObject)), use(@protocol(NSString)), use(@protocol(NSError)), use(@protocol(MTLDevice));
  use(@protocol(MTLCompileOptions)), use(@protocol(MTLBuffer)), use(@protocol(MTLLibrary));
  use(@protocol(MTLFunctionConstantValues)), use(@protocol(MTLComputePipelineState)), use(@protocol(MTLCommandQueue));
  use(@protocol(MTLResidencySet)), use(@protocol(MTLCommandBuffer)), use(@protocol(MTLCommandEncoder));
  use(@protocol(MTLComputeCommandEncoder));
}
