package grammar

import "errors"

// errSize says that an automaton grows too large.
var errSize = errors.New("it makes too large an automaton")

// errWork says that a schema is small and yet takes too long.
var errWork = errors.New("it takes too long to make an automaton of it")

// What making a grammar may take, counted so that what is refused does not depend on the machine.
const (
	maxStates  = 1 << 18 // of a grammar
	maxRegular = 1 << 16 // states of one regular part
	maxPlaces  = 1 << 18 // of a graph that a regular part is made of
	maxSets    = 1 << 26 // bytes of the sets of its places that are told apart
	maxSteps   = 1 << 26 // places, arcs and schemas that are looked at: about a second
)

// effort is what making a grammar has taken.
type effort struct {
	steps int
	stop  func() error // nil while it goes on; asked each time that stopEach steps were taken
}

const stopEach = 1 << 14

// spend counts steps, of which there may be so many.
func (e *effort) spend(steps int) error {
	before := e.steps
	if e.steps += steps; e.steps > maxSteps {
		return errWork
	}
	if before/stopEach != e.steps/stopEach {
		return e.stop()
	}
	return nil
}
