//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package chat

import (
	"context"

	"github.com/peterh/liner"
)

// keys is the keyboard of the console. It is empty: the editor reads the console itself, and treats Ctrl-C as a key for
// each line.
type keys struct{}

func newKeys(context.Context) (*keys, error) { return new(keys), nil }

func (k *keys) newState() *liner.State { return liner.NewLiner() }
func (k *keys) begin()                 {}
func (k *keys) lineBegins()            {}
func (k *keys) end()                   {}
func (k *keys) none() bool             { return true }
func (k *keys) close()                 {}
