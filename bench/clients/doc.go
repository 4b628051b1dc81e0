// Package clients tests `pilotfish serve` with other programs: the official clients of OpenAI's API for Python, Node
// and Go, those of Anthropic's for Python and Node, and OpenAI's Agents SDK. There is a folder for each language with
// its dependencies, a load test with many connections, and a test of agents. The tests need the tag clients, and a
// network to install what is missing: make clients, make agents, make load.
package clients
