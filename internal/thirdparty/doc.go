// Package thirdparty contains a test that THIRD_PARTY.md is correct: the modules that the program consists of, and
// their licences.
package thirdparty
