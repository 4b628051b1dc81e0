package client

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Asks that are over, answered, refused or too late, wait neither for the end of their session nor for that of their
// caller's context.
func TestAsksAreReleased(t *testing.T) {
	s := &script{}
	s.reply = func(n int, _ netproto.Ask) []byte {
		switch n % 3 {
		case 0:
			return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
		case 1:
			return netproto.Refusal{Code: netproto.TooLarge}.Append(nil)
		}
		return nil
	}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		whole, caller := &held.Context{Context: session.ctx}, &held.Context{Context: t.Context()}
		session.ctx = whole
		failed := 0
		for range 9 {
			_, err := session.Ask(caller, terms.Question{Context: ids(3), Within: time.Second})
			if err != nil {
				assert.True(t, errors.Is(err, netproto.TooLarge) || errors.Is(err, netproto.TooLate), err)
				failed++
			}
			synctest.Wait()
			assert.Zero(t, whole.Waiting.Load())
			assert.Zero(t, caller.Waiting.Load())
		}
		assert.Positive(t, failed)
		assert.GreaterOrEqual(t, min(whole.Ever.Load(), caller.Ever.Load()), int32(9))
	})
}
