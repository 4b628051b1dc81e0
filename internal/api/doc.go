// Package api contains a list of the exported names of the stable packages, testdata/stable.txt, and a test that they
// do not change.
package api
