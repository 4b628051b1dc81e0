// Package request parses the requests of package serve: JSON to values, with the path of each error (fields.go).
//
// Each API has a file: chat.go, completion.go, infill.go, and responses.go and messages.go, which are parsed into a
// request for a chat as well. A parameter that is not known, or not supported, is ignored and named; only one without
// which the answer would have another meaning is refused: foreign.go.
package request
