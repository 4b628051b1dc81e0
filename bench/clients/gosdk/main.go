// Command gosdk tests a server with OpenAI's client for Go: gosdk BASE_URL KEY
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// suite has the state that the checks share.
type suite struct {
	url    string
	client openai.Client
	model  string
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: gosdk BASE_URL KEY")
	}
	w := suite{url: os.Args[1]}
	w.client = openai.NewClient(option.WithBaseURL(w.url), option.WithAPIKey(os.Args[2]), option.WithMaxRetries(0))
	page, err := w.client.Models.List(context.Background())
	fatalIfError(err)
	w.model = page.Data[0].ID
	for _, c := range []struct {
		name  string
		check func()
	}{{"chat", w.checkChat}, {"streaming", w.checkStreaming}, {"tools", w.checkTools}, {"schemas", w.checkSchemas},
		{"errors", w.checkErrors}, {"cancel", w.checkCancel}} {
		begin := time.Now()
		c.check()
		fmt.Printf("openai-go: %s: %.2f s\n", c.name, time.Since(begin).Seconds())
	}
}

func fatalIfError(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func fatalUnless(ok bool, format string, args ...any) {
	if !ok {
		log.Fatalf(format, args...)
	}
}

// newChatParams returns a request for a short answer.
func (w *suite) newChatParams(seed int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: w.model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
		MaxCompletionTokens: openai.Int(20), Seed: openai.Int(seed),
	}
}

func (w *suite) checkChat() {
	a, err := w.client.Chat.Completions.New(context.Background(), w.newChatParams(1))
	fatalIfError(err)
	b, err := w.client.Chat.Completions.New(context.Background(), w.newChatParams(1))
	fatalIfError(err)
	fatalUnless(a.Choices[0].Message.Content == b.Choices[0].Message.Content, "the same seed, but %v and %v", a, b)
	fatalUnless(b.Usage.PromptTokensDetails.CachedTokens > 0, "nothing is known from before: %v", b.Usage)
}

func (w *suite) checkStreaming() {
	whole, err := w.client.Chat.Completions.New(context.Background(), w.newChatParams(2))
	fatalIfError(err)
	p := w.newChatParams(2)
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := w.client.Chat.Completions.NewStreaming(context.Background(), p)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		fatalUnless(all.AddChunk(stream.Current()), "a chunk does not fit: %v", stream.Current())
	}
	fatalIfError(stream.Err())
	fatalUnless(all.Choices[0].Message.Content == whole.Choices[0].Message.Content, "streamed %q",
		all.Choices[0].Message.Content)
	fatalUnless(all.Usage.CompletionTokens == whole.Usage.CompletionTokens, "usage %v", all.Usage)
}

func (w *suite) checkTools() {
	p := w.newChatParams(3)
	p.MaxCompletionTokens = openai.Int(200)
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Parameters: shared.FunctionParameters{
			"type": "object", "properties": map[string]any{"days": map[string]any{"type": "integer", "minimum": 1,
				"maximum": 7}},
			"required": []string{"days"}, "additionalProperties": false,
		}})}
	p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	a, err := w.client.Chat.Completions.New(context.Background(), p)
	fatalIfError(err)
	calls := a.Choices[0].Message.ToolCalls
	fatalUnless(len(calls) == 1 && calls[0].Function.Name == "weather", "calls %v", calls)
	var v struct{ Days int }
	fatalIfError(json.Unmarshal([]byte(calls[0].Function.Arguments), &v))
	fatalUnless(v.Days >= 1 && v.Days <= 7, "arguments %s", calls[0].Function.Arguments)
	stream := w.client.Chat.Completions.NewStreaming(context.Background(), p)
	var all openai.ChatCompletionAccumulator
	finished := false
	for stream.Next() {
		fatalUnless(all.AddChunk(stream.Current()), "a chunk does not fit")
		if call, ok := all.JustFinishedToolCall(); ok {
			finished = true
			fatalUnless(call.Arguments == calls[0].Function.Arguments, "streamed %s", call.Arguments)
		}
	}
	fatalIfError(stream.Err())
	fatalUnless(finished, "no call was streamed")
	p.Messages = append(p.Messages, a.Choices[0].Message.ToParam(), openai.ToolMessage("rain", calls[0].ID))
	p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	_, err = w.client.Chat.Completions.New(context.Background(), p)
	fatalIfError(err)
}

func (w *suite) checkSchemas() {
	p := w.newChatParams(4)
	p.MaxCompletionTokens = openai.Int(200)
	p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "s", Strict: openai.Bool(true),
				Schema: map[string]any{
					"type": "object", "properties": map[string]any{"a": map[string]any{"type": "boolean"}},
					"required": []string{"a"}, "additionalProperties": false,
				}}},
	}
	a, err := w.client.Chat.Completions.New(context.Background(), p)
	fatalIfError(err)
	var v map[string]bool
	fatalIfError(json.Unmarshal([]byte(a.Choices[0].Message.Content), &v))
	fatalUnless(len(v) == 1, "answer %v", v)
}

func (w *suite) checkErrors() {
	p := w.newChatParams(5)
	p.Temperature = openai.Float(-1)
	_, err := w.client.Chat.Completions.New(context.Background(), p)
	var e *openai.Error
	fatalUnless(errors.As(err, &e) && e.StatusCode == http.StatusBadRequest && e.Param == "temperature",
		"error %v", err)
	p = w.newChatParams(5)
	p.Model = "none"
	_, err = w.client.Chat.Completions.New(context.Background(), p)
	fatalUnless(errors.As(err, &e) && e.StatusCode == http.StatusNotFound && e.Code == "model_not_found",
		"error %v", err)
}

func (w *suite) checkCancel() {
	p := w.newChatParams(6)
	p.MaxCompletionTokens = openai.Int(8000)
	p.LogitBias = map[string]int64{"65": 100}
	ctx, cancel := context.WithCancel(context.Background())
	stream := w.client.Chat.Completions.NewStreaming(ctx, p)
	fatalUnless(stream.Next(), "no chunk: %v", stream.Err())
	cancel()
	for stream.Next() {
	}
	fatalUnless(errors.Is(stream.Err(), context.Canceled), "error %v", stream.Err())
	for begin := time.Now(); ; {
		answer, err := http.Get(strings.TrimSuffix(w.url, "/v1") + "/health")
		fatalIfError(err)
		var load struct{ Active int }
		fatalIfError(json.NewDecoder(answer.Body).Decode(&load))
		fatalIfError(answer.Body.Close())
		if load.Active == 0 {
			return
		}
		fatalUnless(time.Since(begin) < 5*time.Second, "an abandoned request continues")
	}
}
