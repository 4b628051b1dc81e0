// Package pool holds the workers that share the loops of a forward pass, chooses how many of them are best on this
// machine, and wraps the pause instruction with which they wait.
package pool
