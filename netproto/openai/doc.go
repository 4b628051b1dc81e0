// Package openai serves a model over HTTP in the form of OpenAI's API, and of Anthropic's, as far as they fit a small
// model on a device:
//
//	POST /v1/chat/completions        a turn of a chat, whole or streamed, with tools and formats
//	POST /v1/completions             what follows a text, or fills a gap in it, whole or streamed; scores of texts
//	POST /infill                     what fills a gap, in the form of llama-server
//	POST /v1/responses               a turn of a chat, which later ones can go on with
//	GET  /v1/responses/{id}          an answer that was stored; DELETE forgets it
//	POST /v1/responses/input_tokens  how many tokens a prompt has
//	POST /v1/messages                a turn of a chat, in Anthropic's form
//	POST /v1/messages/count_tokens   how many tokens a prompt has
//	GET  /v1/models[/{id}]           the names under which the model can be asked for
//	GET  /health                     200 while requests are taken, 503 while the server drains
//	GET  /metrics                    what the caller hangs there
//	GET  /                           a chat page for browsers
//
// It knows the model through [Model] alone, and links no inference code. A parameter that would change the answer and
// is not supported is refused by its name; one that would not is accepted. A request goes this way:
//
//	access.go    who asks, from where; refused.go counts and logs those who may not
//	request.go   JSON to values, with the path of what is wrong (fields.go). Of chats there are three forms, all read
//	             into one request: chat_request.go, responses_request.go, messages_request.go
//	local.go     whether anything of it may leave this device
//	gate.go      so many requests at once, so many that wait, the others are sent away
//	pool.go      the session whose text has most in common with the prompt
//	answer.go    tokens to pieces of text and of calls of tools (tags.go, call.go)
//	stream.go    pieces to a reader that may be slow, as the API that was asked writes them (shape.go): chat.go,
//	             completion.go, responses.go, messages.go
//	archive.go   answers of /v1/responses, for requests that go on with them
//
// A slow reader holds nobody up: what is generated waits in a buffer of bounded size for it, and once that is full the
// answer waits, without its place among those that are generated, for [Options].Stall in all; then it is cut off. Where
// too many answers wait for their readers at once, the next one is cut off without waiting.
package openai
