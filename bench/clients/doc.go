// Package clients holds what tries `pilotfish serve` with others' programs: the official clients of OpenAI's API for
// Python, Node and Go, each a program in a folder of its own with what it needs, and a load of many connections. The
// tests need the tag clients, and a network for what is not installed: make clients, make load.
package clients
