// Package layering defines which package may import which, as a table with reasons, and other rules for the whole
// source. It contains only tests.
package layering
