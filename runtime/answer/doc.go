// Package answer generates the answers of chats with tools, for package pilotfish and its HTTP server: thoughts, texts
// and calls of tools, each in its own grammar. It finds calls in a text, as several models write them, and has the JSON
// schemas that calls follow.
package answer
