//go:build nosoft

package device

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// openSoft is left out by the tag nosoft.
func openSoft(string, uint64, int) (metal.Device, error) {
	return nil, fmt.Errorf("%w: this program was built without the one in software (tag nosoft)", metal.ErrNoDevice)
}
