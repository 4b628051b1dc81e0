// Package request parses the requests of package openai: JSON to values, with the path of each error (fields.go).
//
// Each API has a file: chat.go, completion.go, infill.go, and responses.go and messages.go, which are parsed into a
// request for a chat as well. An unsupported parameter is refused by name if it would change the answer, and accepted
// otherwise: foreign.go.
package request
