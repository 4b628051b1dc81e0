package hub

import "errors"

// ErrBusy is returned when another pull, in this process or in another, is fetching the same file.
var ErrBusy = errors.New("another pull is fetching this file")
