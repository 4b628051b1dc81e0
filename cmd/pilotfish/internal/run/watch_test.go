package run

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestFit: tokens of the large model, and without deadlines unverified ones, are shown only after the welcome of the
// gateway was checked or the run is over. Other tokens do not wait.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		name           string
		token          pilotfish.Token
		patient, waits bool
	}{
		{"of the large model", pilotfish.Token{Origin: "cloud"}, false, true},
		{"of the large model, patient", pilotfish.Token{Origin: "cloud"}, true, true},
		{"of the small model, patient", pilotfish.Token{Origin: "edge"}, true, false},
		{"of the small model", pilotfish.Token{Origin: "edge"}, false, false},
		{"unverified, patient", pilotfish.Token{Origin: "edge", Unverified: true}, true, true},
		{"unverified", pilotfish.Token{Origin: "edge", Unverified: true}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, over := range []bool{false, true} {
				bubble.Test(t, func(t *testing.T) {
					w, done := newCloudWatch(func(error) {}, nil), make(chan struct{})
					w.patient, w.done = c.patient, done
					shown := make(chan error, 1)
					go func() { shown <- w.admitToken(c.token) }()
					synctest.Wait()
					assert.Equal(t, c.waits, len(shown) == 0)
					if over {
						close(done)
					} else {
						w.connectAttempted(nil)
					}
					assert.NoError(t, <-shown)
				})
			}
		})
	}
}

// TestWatchOf: a run continues alone only with --require-cloud=false, and is patient only without deadlines.
func TestWatchOf(t *testing.T) {
	type watch struct{ alone, patient bool }
	for line, want := range map[string]watch{
		"": {}, "--require-cloud": {}, "--require-cloud=false": {alone: true},
		"--deadline off": {patient: true}, "--deadline 1h": {},
	} {
		f := parsedRun(t, "--cloud h:1 "+line)
		w := f.newWatch(nil, f.route.Deadline)
		assert.Equal(t, want, watch{w.alone, w.patient}, line)
	}
}

// TestWelcomeRefused: a gateway that lacks a required feature ends the run, before or after the check is known.
func TestWelcomeRefused(t *testing.T) {
	wrong := errors.New("it cannot verify")
	for _, first := range []bool{true, false} {
		var why error
		w := newCloudWatch(func(err error) { why = err }, nil)
		if first {
			w.connectAttempted(nil)
		}
		w.setWelcomeCheck(func() error {
			select {
			case <-w.tried:
				assert.True(t, first, "tokens that wait for the check would be shown")
			default:
			}
			return wrong
		})
		w.connectAttempted(nil)
		assert.Equal(t, []error{wrong, wrong, wrong},
			[]error{why, w.fatalError(), w.admitToken(pilotfish.Token{Origin: "edge"})})
	}
}

// TestWelcomeOnce: the check of the gateway's welcome runs once it is there, and no more after an error.
func TestWelcomeOnce(t *testing.T) {
	ended, checked := 0, 0
	w := newCloudWatch(func(error) { ended++ }, nil)
	w.setWelcomeCheck(func() error { checked++; return errors.New("it cannot verify") })
	assert.Zero(t, checked, "there is no welcome yet")
	w.connectAttempted(nil)
	w.connectAttempted(nil)
	w.checkWelcome()
	assert.Equal(t, 1, checked)
	assert.Equal(t, 1, ended)
}

// TestWhy: what the connection lacks explains a missing answer, and nothing if all questions were answered. Without
// questions, it is still said that there was no connection.
func TestWhy(t *testing.T) {
	w := newCloudWatch(nil, nil)
	late, gone := errors.New("late"), errors.New("gone")
	w.connectAttempted(gone)
	assert.Equal(t, []error{nil, gone}, []error{w.unansweredCause(), w.failureCause()})
	w.observeEvent(pilotfish.Event{Escalation: &pilotfish.Escalation{Outcome: "unasked", Err: late}})
	assert.Equal(t, []error{gone, gone}, []error{w.unansweredCause(), w.failureCause()})
	w.connectAttempted(nil)
	assert.Equal(t, []error{late, late}, []error{w.unansweredCause(), w.failureCause()})
	first := errors.New("the first failure")
	w.observeEvent(pilotfish.Event{Escalation: &pilotfish.Escalation{Outcome: "failed", Err: first}})
	assert.Equal(t, first, w.unansweredCause(), "what it brings about later explains less")
}
