package mtl

import "unsafe"

// putSizes puts two structures of three words each behind receiver and selector among the words of a call, as
// processors of the kind arch pass them, and returns how many words the call then has. They are larger than two
// registers: arm64 passes the address of each, amd64 puts their words on the stack, behind the four registers that no
// other argument fills.
func putSizes(arch string, words *[maxWords]uintptr, sizes *[2]size) int {
	a, b := &sizes[0], &sizes[1]
	if arch == "arm64" {
		words[2], words[3] = uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b))
		return 4
	}
	words[6], words[7], words[8] = a.width, a.height, a.depth
	words[9], words[10], words[11] = b.width, b.height, b.depth
	return maxWords
}

// sizeEntry is the function that sends a message whose result is such a structure. On amd64 it is one of its own;
// elsewhere objc_msgSend leaves alone the register with the place for the result.
func sizeEntry(arch string) string {
	if arch == "amd64" {
		return "objc_msgSend_stret"
	}
	return "objc_msgSend"
}
