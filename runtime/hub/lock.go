package hub

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/filelock"
)

// ErrBusy is returned when another pull, in this process or in another, is fetching the same file.
var ErrBusy = errors.New("another pull is fetching this file")

// lockFile takes the lock that path stands for, or fails with [ErrBusy].
func lockFile(path string) (unlock func(), err error) {
	unlock, err = filelock.Lock(path)
	if errors.Is(err, filelock.ErrHeld) {
		err = fmt.Errorf("%s: %w: wait until it has ended", strings.TrimSuffix(path, ".lock"), ErrBusy)
	}
	return unlock, err
}
