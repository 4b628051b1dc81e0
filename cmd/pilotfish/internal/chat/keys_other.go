//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package chat

import (
	"context"

	"github.com/peterh/liner"
)

// keys is what comes from the console: the editor reads it there itself, and makes a key of Ctrl-C for each line.
type keys struct{}

func newKeys(context.Context) (*keys, error) { return new(keys), nil }

func (k *keys) newState() *liner.State { return liner.NewLiner() }
func (k *keys) begin()                 {}
func (k *keys) end()                   {}
func (k *keys) none() bool             { return true }
func (k *keys) close()                 {}
