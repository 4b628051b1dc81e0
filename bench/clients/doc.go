// Package clients holds what tries `pilotfish serve` with others' programs: the official clients of OpenAI's API for
// Python, Node and Go, those of Anthropic's for Python and Node, and OpenAI's Agents SDK, in a folder for each language
// with what it needs, and a load of many connections. The tests need the tag clients, and a network for what is not
// installed: make clients, make load.
package clients
