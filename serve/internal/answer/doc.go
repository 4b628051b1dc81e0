// Package answer generates the answers of package serve. It defines the model as the server uses it ([Model]),
// generates one answer with text and tool calls, and assembles its pieces.
package answer
