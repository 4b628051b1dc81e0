package mtl

// selector is a message of Apple's API that this package sends: an index into selectors.
type selector uint8

// The messages, in the order of the table.
const (
	selAlloc selector = iota
	selInit
	selRelease
	selRetain
	selRespondsToSelector
	selStringWithUTF8String
	selUTF8String
	selLocalizedDescription

	selDeviceName
	selMaxBufferLength
	selMaxThreadgroupMemoryLength
	selMaxThreadsPerThreadgroup
	selNewBufferWithLength
	selNewBufferWithBytesNoCopy
	selNewCommandQueue
	selNewComputePipelineState
	selNewFence
	selNewLibraryWithSource

	selSetFastMathEnabled
	selSetLanguageVersion
	selSetMathFloatingPointFunctions
	selSetMathMode

	selContents
	selNewFunctionWithName
	selNewFunctionWithConstants
	selSetConstantValue

	selMaxTotalThreadsPerThreadgroup
	selStaticThreadgroupMemoryLength
	selThreadExecutionWidth

	selCommandBuffer
	selCommit
	selComputeCommandEncoder
	selCommandBufferError
	selGPUEndTime
	selGPUStartTime
	selStatus
	selWaitUntilCompleted

	selDispatchThreadgroups
	selEndEncoding
	selMemoryBarrierWithScope
	selSetBuffer
	selSetBufferOffset
	selSetBytes
	selSetComputePipelineState
	selSetThreadgroupMemoryLength
	selUpdateFence
	selWaitForFence

	selectorCount
)

// selectors is every message that this package sends, with the class or protocol of Apple's that declares it.
var selectors = [selectorCount]struct{ class, name string }{
	selAlloc:                {"NSObject", "alloc"},
	selInit:                 {"NSObject", "init"},
	selRelease:              {"NSObject", "release"},
	selRetain:               {"NSObject", "retain"},
	selRespondsToSelector:   {"NSObject", "respondsToSelector:"},
	selStringWithUTF8String: {"NSString", "stringWithUTF8String:"},
	selUTF8String:           {"NSString", "UTF8String"},
	selLocalizedDescription: {"NSError", "localizedDescription"},

	selDeviceName:                 {"MTLDevice", "name"},
	selMaxBufferLength:            {"MTLDevice", "maxBufferLength"},
	selMaxThreadgroupMemoryLength: {"MTLDevice", "maxThreadgroupMemoryLength"},
	selMaxThreadsPerThreadgroup:   {"MTLDevice", "maxThreadsPerThreadgroup"},
	selNewBufferWithLength:        {"MTLDevice", "newBufferWithLength:options:"},
	selNewBufferWithBytesNoCopy:   {"MTLDevice", "newBufferWithBytesNoCopy:length:options:deallocator:"},
	selNewCommandQueue:            {"MTLDevice", "newCommandQueue"},
	selNewComputePipelineState:    {"MTLDevice", "newComputePipelineStateWithFunction:error:"},
	selNewFence:                   {"MTLDevice", "newFence"},
	selNewLibraryWithSource:       {"MTLDevice", "newLibraryWithSource:options:error:"},

	selSetFastMathEnabled:            {"MTLCompileOptions", "setFastMathEnabled:"},
	selSetLanguageVersion:            {"MTLCompileOptions", "setLanguageVersion:"},
	selSetMathFloatingPointFunctions: {"MTLCompileOptions", "setMathFloatingPointFunctions:"},
	selSetMathMode:                   {"MTLCompileOptions", "setMathMode:"},

	selContents:                 {"MTLBuffer", "contents"},
	selNewFunctionWithName:      {"MTLLibrary", "newFunctionWithName:"},
	selNewFunctionWithConstants: {"MTLLibrary", "newFunctionWithName:constantValues:error:"},
	selSetConstantValue:         {"MTLFunctionConstantValues", "setConstantValue:type:atIndex:"},

	selMaxTotalThreadsPerThreadgroup: {"MTLComputePipelineState", "maxTotalThreadsPerThreadgroup"},
	selStaticThreadgroupMemoryLength: {"MTLComputePipelineState", "staticThreadgroupMemoryLength"},
	selThreadExecutionWidth:          {"MTLComputePipelineState", "threadExecutionWidth"},

	selCommandBuffer:         {"MTLCommandQueue", "commandBuffer"},
	selCommit:                {"MTLCommandBuffer", "commit"},
	selComputeCommandEncoder: {"MTLCommandBuffer", "computeCommandEncoderWithDispatchType:"},
	selCommandBufferError:    {"MTLCommandBuffer", "error"},
	selGPUEndTime:            {"MTLCommandBuffer", "GPUEndTime"},
	selGPUStartTime:          {"MTLCommandBuffer", "GPUStartTime"},
	selStatus:                {"MTLCommandBuffer", "status"},
	selWaitUntilCompleted:    {"MTLCommandBuffer", "waitUntilCompleted"},

	selDispatchThreadgroups:       {"MTLComputeCommandEncoder", "dispatchThreadgroups:threadsPerThreadgroup:"},
	selEndEncoding:                {"MTLCommandEncoder", "endEncoding"},
	selMemoryBarrierWithScope:     {"MTLComputeCommandEncoder", "memoryBarrierWithScope:"},
	selSetBuffer:                  {"MTLComputeCommandEncoder", "setBuffer:offset:atIndex:"},
	selSetBufferOffset:            {"MTLComputeCommandEncoder", "setBufferOffset:atIndex:"},
	selSetBytes:                   {"MTLComputeCommandEncoder", "setBytes:length:atIndex:"},
	selSetComputePipelineState:    {"MTLComputeCommandEncoder", "setComputePipelineState:"},
	selSetThreadgroupMemoryLength: {"MTLComputeCommandEncoder", "setThreadgroupMemoryLength:atIndex:"},
	selUpdateFence:                {"MTLComputeCommandEncoder", "updateFence:"},
	selWaitForFence:               {"MTLComputeCommandEncoder", "waitForFence:"},
}

// class is a class of Apple's that this package sends messages to: an index into classes.
type class uint8

const (
	classString class = iota
	classCompileOptions
	classFunctionConstantValues
	classCount
)

// classes is every class that this package asks the Objective-C runtime for.
var classes = [classCount]string{
	classString:                 "NSString",
	classCompileOptions:         "MTLCompileOptions",
	classFunctionConstantValues: "MTLFunctionConstantValues",
}

// Values of Apple's enumerations, under Apple's names.
const (
	mtlBarrierScopeBuffers                 = 1
	mtlCommandBufferStatusCompleted        = 4
	mtlDataTypeFloat                       = 3
	mtlDataTypeInt                         = 29
	mtlDataTypeUInt                        = 33
	mtlDataTypeBool                        = 53
	mtlDispatchTypeConcurrent              = 1
	mtlLanguageVersion3_1                  = 3<<16 + 1
	mtlMathFloatingPointFunctionsPrecise   = 1
	mtlMathModeSafe                        = 0
	mtlResourceHazardTrackingModeUntracked = 0x100
	mtlResourceStorageModeShared           = 0
)
