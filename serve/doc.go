// Package serve serves a model over HTTP with OpenAI's and Anthropic's APIs, as far as they fit a small model on a
// device:
//
//	POST /v1/chat/completions        a turn of a chat, whole or streamed, with tools and formats
//	POST /v1/completions             a completion of a text or a gap, whole or streamed; scores of texts
//	POST /infill                     an infilling of a gap, in the form of llama-server
//	POST /v1/responses               a turn of a chat, which later requests can continue
//	GET  /v1/responses/{id}          a stored answer; DELETE deletes it
//	POST /v1/responses/input_tokens  how many tokens a prompt has
//	POST /v1/messages                a turn of a chat, in Anthropic's form
//	POST /v1/messages/count_tokens   how many tokens a prompt has
//	GET  /v1/models[/{id}]           the names of the model
//	GET  /health                     200 while requests are accepted, 503 while the server drains
//	GET  /metrics                    the handler of [Options].Metrics
//	GET  /                           a chat page for browsers
//
// [New] makes the server of a [pilotfish.Model], for any mux: it is an [http.Handler]. A request passes through these
// files. model.go has what they need of the model, so that tests can have models that follow a script:
//
//	access.go    keys, hosts and origins; refused.go counts and logs refused requests, ignored.go names ignored fields
//	internal/request/  JSON to values, with the paths of errors; the chats of three APIs become one request type
//	local.go     whether text may leave this device
//	limiter.go   limits the requests that are processed and that wait; prepare.go those that compile grammars
//	pool.go      the session with the most of the prompt in its cache; folder.go saves others
//	internal/answer/   tokens to pieces of text, of thoughts and of tool calls
//	stream.go    pieces to a possibly slow reader, in the format of the API (formatter.go): chat.go,
//	             completion.go, infill.go, responses.go, messages.go
//	archive.go   answers of /v1/responses, for requests that continue them
//
// A slow reader does not delay other requests. Generated text waits for it in a buffer. When the buffer is full, the
// answer gives its slot to others and waits for [Options].Stall in all; then it is cut off. If too many answers wait
// for their readers at once, the next one is cut off immediately.
package serve
