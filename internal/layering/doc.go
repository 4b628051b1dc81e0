// Package layering states which package may know which, as a table with reasons, and what else the whole source keeps
// to. It holds tests only.
package layering
