//go:build nosoft

package device

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// openSoft returns an error: the tag nosoft leaves the software device out.
func openSoft(bool, int) (metal.Device, error) {
	return nil, fmt.Errorf("%w: this program was built without the one in software (tag nosoft)", metal.ErrNoDevice)
}
