// Package openai serves a model over HTTP with OpenAI's and Anthropic's APIs, as far as they fit a small model on a
// device:
//
//	POST /v1/chat/completions        a turn of a chat, whole or streamed, with tools and formats
//	POST /v1/completions             what follows a text, or fills a gap in it, whole or streamed; scores of texts
//	POST /infill                     what fills a gap, in the form of llama-server
//	POST /v1/responses               a turn of a chat, which later ones can go on with
//	GET  /v1/responses/{id}          an answer that was stored; DELETE forgets it
//	POST /v1/responses/input_tokens  how many tokens a prompt has
//	POST /v1/messages                a turn of a chat, in Anthropic's form
//	POST /v1/messages/count_tokens   how many tokens a prompt has
//	GET  /v1/models[/{id}]           the names of the model
//	GET  /health                     200 while requests are taken, 503 while the server drains
//	GET  /metrics                    the handler of [Options].Metrics
//	GET  /                           a chat page for browsers
//
// It uses a model through [answer.Model], and links no inference code. A request passes through these files:
//
//	access.go    who asks, from where; refused.go counts and logs those that may not
//	request/     JSON to values, with the path of what is wrong; three APIs have chats, read into one request
//	local.go     whether any of it may leave this device
//	gate.go      limits the requests that are answered at once and that wait; prepare.go those that wait for grammars
//	pool.go      the session that has most of the prompt; folder.go saves others
//	answer/      tokens to pieces of text and of calls of tools
//	stream.go    pieces to a reader that may be slow, in the shape of the API (shape.go): chat.go, completion.go,
//	             infill.go, responses.go, messages.go
//	archive.go   answers of /v1/responses, for requests that go on with them
//
// A slow reader does not delay other requests. Generated text waits for it in a buffer. When the buffer is full, the
// answer gives its place to others and waits for [Options].Stall in all; then it is cut off. If too many answers wait
// for their readers at once, the next one is cut off immediately.
package openai
