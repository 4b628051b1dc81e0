// Package capacity measures how long answers take when a number of devices share one large model: the cost of a pass of
// the model ([Measure]), and the answers of devices in this process against a real model ([Live]).
//
// Each device sends a prompt, gets an answer, and sends the next prompt at once: a closed loop. An answer is produced
// in one of three ways, see [Mode]. Random numbers come from the number of the device and the number of its answer.
package capacity
