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
	selNewResidencySet
	selSupportsFamily

	selFastMathEnabled
	selLanguageVersion
	selMathFloatingPointFunctions
	selMathMode
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

	selAddResidencySet
	selCommandBuffer
	selAddAllocation
	selEndResidency
	selRemoveAllocation
	selRequestResidency

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
	selSetBuffers
	selSetBufferOffset
	selSetComputePipelineState
	selSetThreadgroupMemoryLength
	selUpdateFence
	selWaitForFence

	selectorCount
)

// selectors lists every message that this package sends, with Apple's class or protocol that declares it, and the types
// of its result and arguments in the notation of the Objective-C runtime (Apple's Objective-C Runtime Programming
// Guide, "Type Encodings"), without receiver, selector, sizes and qualifiers.
var selectors = [selectorCount]struct{ class, name, types string }{
	selAlloc:                {"NSObject", "alloc", "@"},
	selInit:                 {"NSObject", "init", "@"},
	selRelease:              {"NSObject", "release", "v"},
	selRetain:               {"NSObject", "retain", "@"},
	selRespondsToSelector:   {"NSObject", "respondsToSelector:", "B:"},
	selStringWithUTF8String: {"NSString", "stringWithUTF8String:", "@*"},
	selUTF8String:           {"NSString", "UTF8String", "*"},
	selLocalizedDescription: {"NSError", "localizedDescription", "@"},

	selDeviceName:                 {"MTLDevice", "name", "@"},
	selMaxBufferLength:            {"MTLDevice", "maxBufferLength", "Q"},
	selMaxThreadgroupMemoryLength: {"MTLDevice", "maxThreadgroupMemoryLength", "Q"},
	selMaxThreadsPerThreadgroup:   {"MTLDevice", "maxThreadsPerThreadgroup", "{?=QQQ}"},
	selNewBufferWithLength:        {"MTLDevice", "newBufferWithLength:options:", "@QQ"},
	selNewBufferWithBytesNoCopy:   {"MTLDevice", "newBufferWithBytesNoCopy:length:options:deallocator:", "@^vQQ@?"},
	selNewCommandQueue:            {"MTLDevice", "newCommandQueue", "@"},
	selNewComputePipelineState:    {"MTLDevice", "newComputePipelineStateWithFunction:error:", "@@^@"},
	selNewFence:                   {"MTLDevice", "newFence", "@"},
	selNewLibraryWithSource:       {"MTLDevice", "newLibraryWithSource:options:error:", "@@@^@"},
	selNewResidencySet:            {"MTLDevice", "newResidencySetWithDescriptor:error:", "@@^@"},
	selSupportsFamily:             {"MTLDevice", "supportsFamily:", "Bq"},

	selFastMathEnabled:               {"MTLCompileOptions", "fastMathEnabled", "B"},
	selLanguageVersion:               {"MTLCompileOptions", "languageVersion", "Q"},
	selMathFloatingPointFunctions:    {"MTLCompileOptions", "mathFloatingPointFunctions", "q"},
	selMathMode:                      {"MTLCompileOptions", "mathMode", "q"},
	selSetFastMathEnabled:            {"MTLCompileOptions", "setFastMathEnabled:", "vB"},
	selSetLanguageVersion:            {"MTLCompileOptions", "setLanguageVersion:", "vQ"},
	selSetMathFloatingPointFunctions: {"MTLCompileOptions", "setMathFloatingPointFunctions:", "vq"},
	selSetMathMode:                   {"MTLCompileOptions", "setMathMode:", "vq"},

	selContents:                 {"MTLBuffer", "contents", "^v"},
	selNewFunctionWithName:      {"MTLLibrary", "newFunctionWithName:", "@@"},
	selNewFunctionWithConstants: {"MTLLibrary", "newFunctionWithName:constantValues:error:", "@@@^@"},
	selSetConstantValue:         {"MTLFunctionConstantValues", "setConstantValue:type:atIndex:", "v^vQQ"},

	selMaxTotalThreadsPerThreadgroup: {"MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", "Q"},
	selStaticThreadgroupMemoryLength: {"MTLComputePipelineState", "staticThreadgroupMemoryLength", "Q"},
	selThreadExecutionWidth:          {"MTLComputePipelineState", "threadExecutionWidth", "Q"},

	selAddResidencySet:  {"MTLCommandQueue", "addResidencySet:", "v@"},
	selCommandBuffer:    {"MTLCommandQueue", "commandBufferWithUnretainedReferences", "@"},
	selAddAllocation:    {"MTLResidencySet", "addAllocation:", "v@"},
	selEndResidency:     {"MTLResidencySet", "endResidency", "v"},
	selRemoveAllocation: {"MTLResidencySet", "removeAllocation:", "v@"},
	selRequestResidency: {"MTLResidencySet", "requestResidency", "v"},

	selCommit:                {"MTLCommandBuffer", "commit", "v"},
	selComputeCommandEncoder: {"MTLCommandBuffer", "computeCommandEncoderWithDispatchType:", "@Q"},
	selCommandBufferError:    {"MTLCommandBuffer", "error", "@"},
	selGPUEndTime:            {"MTLCommandBuffer", "GPUEndTime", "d"},
	selGPUStartTime:          {"MTLCommandBuffer", "GPUStartTime", "d"},
	selStatus:                {"MTLCommandBuffer", "status", "Q"},
	selWaitUntilCompleted:    {"MTLCommandBuffer", "waitUntilCompleted", "v"},

	selDispatchThreadgroups: {
		"MTLComputeCommandEncoder", "dispatchThreadgroups:threadsPerThreadgroup:", "v{?=QQQ}{?=QQQ}",
	},
	selEndEncoding:                {"MTLCommandEncoder", "endEncoding", "v"},
	selMemoryBarrierWithScope:     {"MTLComputeCommandEncoder", "memoryBarrierWithScope:", "vQ"},
	selSetBuffer:                  {"MTLComputeCommandEncoder", "setBuffer:offset:atIndex:", "v@QQ"},
	selSetBuffers:                 {"MTLComputeCommandEncoder", "setBuffers:offsets:withRange:", "v^@^Q{_NSRange=QQ}"},
	selSetBufferOffset:            {"MTLComputeCommandEncoder", "setBufferOffset:atIndex:", "vQQ"},
	selSetComputePipelineState:    {"MTLComputeCommandEncoder", "setComputePipelineState:", "v@"},
	selSetThreadgroupMemoryLength: {"MTLComputeCommandEncoder", "setThreadgroupMemoryLength:atIndex:", "vQQ"},
	selUpdateFence:                {"MTLComputeCommandEncoder", "updateFence:", "v@"},
	selWaitForFence:               {"MTLComputeCommandEncoder", "waitForFence:", "v@"},
}

// class is a class of Apple's that this package sends messages to: an index into classes.
type class uint8

const (
	classString class = iota
	classCompileOptions
	classFunctionConstantValues
	classResidencySetDescriptor
	classCount
)

// classes lists every class that this package looks up. Systems before macOS 15 lack newer ones.
var classes = [classCount]struct {
	name  string
	newer bool
}{
	classString:                 {name: "NSString"},
	classCompileOptions:         {name: "MTLCompileOptions"},
	classFunctionConstantValues: {name: "MTLFunctionConstantValues"},
	classResidencySetDescriptor: {name: "MTLResidencySetDescriptor", newer: true},
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
	mtlGPUFamilyApple7                     = 1007
	mtlLanguageVersion3_1                  = 3<<16 + 1
	mtlMathFloatingPointFunctionsPrecise   = 1
	mtlMathModeSafe                        = 0
	mtlResourceHazardTrackingModeUntracked = 0x100
	mtlResourceStorageModeShared           = 0
)
