//go:build !((darwin || linux) && (amd64 || arm64))

package mtl

import "errors"

// foreign reports whether this system can call C functions without cgo.
const foreign = false

func openDylib(string) (uintptr, error) { return 0, errors.ErrUnsupported }

func findSymbol([]uintptr, string) (uintptr, error) { return 0, errors.ErrUnsupported }

func callC(uintptr, []uintptr) uintptr { return 0 }

func (o *objc) bindSeconds() {}

func (o *objc) bindSize([]uintptr) error { return errors.ErrUnsupported }
