// Package bench measures: how fast the engine runs against what the machine's memory allows. It drives the parts end to
// end and returns reports; printing them is the command's business.
package bench
