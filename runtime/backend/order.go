package backend

import (
	"errors"
	"fmt"
)

// ErrOrder is wrapped by the error of a pass with operations in an order that [Pass] does not allow.
var ErrOrder = errors.New("operations of a pass out of order")

// Order checks that the calls of one pass follow the grammar of [Pass]: a backend calls it before each operation, and
// fails the pass with its error. The zero value is the state at the beginning of a pass.
type Order struct {
	state   orderState
	last    OpKind // the last call; meaningless if calls is 0
	calls   int    // number of allowed calls so far
	q, k, v Tensor // of the last NormProject
}

// orderState says which calls are allowed next.
type orderState uint8

const (
	between   orderState = iota // operations have begun or ended: all but Attend
	projected                   // NormProject was called: Attend
	headed                      // Head was called: End
	ended                       // End was called: nothing
)

// allows reports whether an operation may be called in this state.
func (s orderState) allows(op OpKind) bool {
	switch s {
	case between:
		return op != OpAttend
	case projected:
		return op == OpAttend
	case headed:
		return op == OpEnd
	}
	return false
}

// Next records a call of any operation except NormProject and Attend. It returns an error if the order does not allow
// the call. OpEnd also stands for [Flight].Commit; after it the pass is over, even if Next returns an error.
func (o *Order) Next(op OpKind) error {
	if !o.state.allows(op) {
		err := o.wrong(op, "may not come there")
		if op == OpEnd {
			o.note(op, ended)
		}
		return err
	}
	switch op {
	case OpHead:
		o.note(op, headed)
	case OpEnd:
		o.note(op, ended)
	default:
		o.note(op, between)
	}
	return nil
}

// NormProject records a call of NormProject with these results. It returns an error if the order does not allow the
// call.
func (o *Order) NormProject(q, k, v Tensor) error {
	if !o.state.allows(OpNormProject) {
		return o.wrong(OpNormProject, "may not come there")
	}
	o.q, o.k, o.v = q, k, v
	o.note(OpNormProject, projected)
	return nil
}

// Attend records a call of Attend. It returns an error unless the call follows the NormProject that wrote q, k and v.
func (o *Order) Attend(q, k, v Tensor) error {
	if !o.state.allows(OpAttend) {
		return o.wrong(OpAttend, "follows norm+project alone")
	}
	if q != o.q || k != o.k || v != o.v {
		return o.wrong(OpAttend, "takes other tensors than that wrote")
	}
	o.note(OpAttend, between)
	return nil
}

// Misread returns the error for the last call if it takes a tensor that it must not read: q, k or v of NormProject
// outside Attend, or the result of Attend outside the ProjectAdd after it.
func (o *Order) Misread(op OpKind) error {
	const what = "what norm+project wrote for attend, or attend for the project+add after it"
	return fmt.Errorf("%w: call %d, %s, reads %s", ErrOrder, o.calls, op, what)
}

// Ended reports whether the pass is over.
func (o *Order) Ended() bool { return o.state == ended }

// note records an operation.
func (o *Order) note(op OpKind, then orderState) {
	o.state, o.last = then, op
	o.calls++
}

// wrong returns the error for an operation that is not allowed.
func (o *Order) wrong(op OpKind, why string) error {
	before := "begin"
	if o.calls > 0 {
		before = o.last.String()
	}
	return fmt.Errorf("%w: call %d, %s after %s: it %s", ErrOrder, o.calls+1, op, before, why)
}
