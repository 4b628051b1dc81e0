//go:build !linux

package soft

import (
	"fmt"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// supported returns an error, because the device cannot run here. The other functions of this file are never called.
func supported() error {
	return fmt.Errorf("%w: the software device runs on Linux, not on %s", metal.ErrNoDevice, runtime.GOOS)
}

func load(string) (*module, error)      { return nil, supported() }
func (*module) run(uint64, uint64) int  { return 0 }
func (*module) setConstant(int, []byte) {}
func (*module) close() error            { return nil }
func mapPages(int) (pages, error)       { return pages{}, supported() }
func mapAligned(int) (pages, error)     { return pages{}, supported() }
func (pages) clear() error              { return nil }
func (*pages) free()                    {}
