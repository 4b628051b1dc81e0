// Package clients tests `pilotfish serve` with other programs: the official clients of OpenAI's API for Python, Node
// and Go, those of Anthropic's for Python and Node, and OpenAI's Agents SDK. There is a folder for each language with
// its dependencies, and a load test with many connections. The tests need the tag clients, and a network to install
// what is missing: make clients, make load. Package serve has the test of agents.
package clients
