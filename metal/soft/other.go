//go:build !linux

package soft

import (
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// checkPlatform returns an error, because the device cannot run here. The other functions of this file are never
// called.
func checkPlatform() error {
	return fmt.Errorf("%w: the software device runs on Linux, not on %s", metal.ErrNoDevice, runtime.GOOS)
}

func loadModule(string) (*module, error)     { return nil, checkPlatform() }
func (*module) callEntry(uint64, uint64) int { return 0 }
func (*module) setConstant(int, []byte)      {}
func (*module) unloadModule() error          { return nil }
func mapPages(int) (pages, error)            { return pages{}, checkPlatform() }
func mapAligned(int) (pages, error)          { return pages{}, checkPlatform() }
func (pages) zeroPages() error               { return nil }
func (*pages) unmapPages()                   {}
