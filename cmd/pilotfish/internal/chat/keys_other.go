//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package chat

import (
	"context"

	"github.com/peterh/liner"
)

// keyForwarder is the keyboard of the console. It is empty: the editor reads the console itself, and treats Ctrl-C as a
// key for each line.
type keyForwarder struct{}

func newKeyForwarder(context.Context) (*keyForwarder, error) { return new(keyForwarder), nil }

func (k *keyForwarder) newLinerState() *liner.State { return liner.NewLiner() }
func (k *keyForwarder) beginPrompt()                {}
func (k *keyForwarder) beginLine()                  {}
func (k *keyForwarder) endPrompt()                  {}
func (k *keyForwarder) isLineEmpty() bool           { return true }
func (k *keyForwarder) stopForwarding()             {}
