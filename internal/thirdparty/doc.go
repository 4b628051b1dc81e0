// Package thirdparty holds the test that THIRD_PARTY.md is true: which modules the program is made of, and their
// licences.
package thirdparty
