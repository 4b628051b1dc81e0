// Package answer makes the answers of package openai: it has the model as the server sees it ([Model]), generates one
// answer in text and calls of tools, and puts together the pieces of it.
package answer
