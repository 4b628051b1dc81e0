// Package cputime tells the CPU time of this process, for measurements and for bounds of work that hold on a busy
// machine.
package cputime
