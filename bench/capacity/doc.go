// Package capacity finds out how many devices one large model can serve: the largest number for which the 95th
// percentile of the time of an answer stays below a bound. It measures the cost of a pass of the model ([Measure]),
// simulates any number of devices and gateways with these costs ([simulate], [Search]), and runs real devices against a
// real model to compare ([Live]).
//
// A device sends a prompt, gets an answer, and sends the next prompt after a pause with an exponential distribution: a
// closed loop. An answer is produced in one of three ways, see [Mode]. Random numbers come from the seed, the number of
// the device and the number of its answer, so that a simulation and a run of real devices have the same pauses and the
// same asks, and a simulation gives the same result each time.
package capacity
