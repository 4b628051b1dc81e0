package mtl

import "unsafe"

// putSizes appends two structures of three words each to the words of a call, after receiver and selector, as the
// calling convention of arch passes them. It returns the number of words of the call. The structures are larger than
// two registers: arm64 passes the address of each; amd64 puts their words on the stack, which follow the four argument
// registers that stay unused.
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

// sizeEntry returns the name of the function that sends a message with such a structure as its result. amd64 has a
// separate function for it; elsewhere objc_msgSend preserves the register with the address of the result.
func sizeEntry(arch string) string {
	if arch == "amd64" {
		return "objc_msgSend_stret"
	}
	return "objc_msgSend"
}
