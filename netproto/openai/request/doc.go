// Package request reads the requests of package openai: JSON to values, with the path of what is wrong (fields.go).
//
// Each API has a file: chat.go, completion.go, infill.go, and responses.go and messages.go, which are read into a
// request for a chat as well. A parameter that would change the answer and is not supported is refused by its name; one
// that would not is accepted: foreign.go.
package request
