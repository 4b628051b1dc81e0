package gpu

import "unsafe"

// Numbers of CL/cl.h.
const (
	deviceTypeCPU      = 1 << 1
	queueOutOfOrder    = 1 << 0
	programBuildLog    = 0x1183
	kernelLocalMemSize = 0x11B2
	kernelSubGroupSize = 0x2033 // CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE
)

// clAPI are functions of OpenCL, by their names without cl. Objects are words; a result is 0 or an error.
type clAPI struct {
	GetPlatformIDs func(room uint32, ids *uintptr, n *uint32) int32
	GetDeviceIDs   func(platform uintptr, kind uint64, room uint32, ids *uintptr, n *uint32) int32
	CreateContext  func(properties unsafe.Pointer, n uint32, devices *uintptr, notify uintptr, data unsafe.Pointer,
		e *int32) uintptr
	CreateProgramWithSource func(context uintptr, n uint32, texts *unsafe.Pointer, lengths *uint64, e *int32) uintptr
	BuildProgram            func(program uintptr, n uint32, devices *uintptr, options string, notify uintptr,
		data unsafe.Pointer) int32
	GetProgramBuildInfo    func(program, device uintptr, what uint32, room uint64, to *byte, size *uint64) int32
	CreateKernel           func(program uintptr, name string, e *int32) uintptr
	GetKernelWorkGroupInfo func(kernel, device uintptr, what uint32, room uint64, to, size *uint64) int32
	GetKernelSubGroupInfo  func(kernel, device uintptr, what uint32, n uint64, input *uint64, room uint64,
		to, size *uint64) int32
	SetKernelArg           func(kernel uintptr, index uint32, size uint64, value unsafe.Pointer) int32
	SetKernelArgSVMPointer func(kernel uintptr, index uint32, at unsafe.Pointer) int32
	ReleaseKernel          func(kernel uintptr) int32
	CreateCommandQueue     func(context, device uintptr, properties uint64, e *int32) uintptr
	EnqueueNDRangeKernel   func(queue, kernel uintptr, dims uint32, offset, global, local *uint64, waits uint32,
		list, event *uintptr) int32
	EnqueueBarrierWithWaitList func(queue uintptr, waits uint32, list, event *uintptr) int32
	EnqueueMarkerWithWaitList  func(queue uintptr, waits uint32, list, event *uintptr) int32
	Flush, Finish              func(queue uintptr) int32
	ReleaseCommandQueue        func(queue uintptr) int32
	WaitForEvents              func(n uint32, events *uintptr) int32
	ReleaseEvent               func(event uintptr) int32
}
