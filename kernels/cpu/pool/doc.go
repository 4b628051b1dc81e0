// Package pool is the workers that share the loops of a forward pass, how many of them serve best on this machine, and
// the pause instruction with which they wait.
package pool
