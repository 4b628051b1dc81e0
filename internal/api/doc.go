// Package api holds the exported names of the stable packages, testdata/stable.txt, and the test that they are kept.
package api
