// Package bench measures: how fast the engine runs, beside what memory and multiplications of the machine allow, and
// what routing between two models is worth. It runs the parts end to end and returns reports; commands print them.
package bench
