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

// world has the state that the checks share.
type world struct {
	url    string
	client openai.Client
	model  string
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: gosdk BASE_URL KEY")
	}
	w := world{url: os.Args[1]}
	w.client = openai.NewClient(option.WithBaseURL(w.url), option.WithAPIKey(os.Args[2]), option.WithMaxRetries(0))
	page, err := w.client.Models.List(context.Background())
	must(err)
	w.model = page.Data[0].ID
	for _, c := range []struct {
		name  string
		check func()
	}{{"chat", w.chat}, {"streaming", w.streaming}, {"tools", w.tools}, {"schemas", w.schemas}, {"errors", w.errors},
		{"cancel", w.cancel}} {
		begin := time.Now()
		c.check()
		fmt.Printf("openai-go: %s: %.2f s\n", c.name, time.Since(begin).Seconds())
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func expect(ok bool, format string, args ...any) {
	if !ok {
		log.Fatalf(format, args...)
	}
}

// ask returns a request for a short answer.
func (w *world) ask(seed int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: w.model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
		MaxCompletionTokens: openai.Int(20), Seed: openai.Int(seed),
	}
}

func (w *world) chat() {
	a, err := w.client.Chat.Completions.New(context.Background(), w.ask(1))
	must(err)
	b, err := w.client.Chat.Completions.New(context.Background(), w.ask(1))
	must(err)
	expect(a.Choices[0].Message.Content == b.Choices[0].Message.Content, "the same seed, but %v and %v", a, b)
	expect(b.Usage.PromptTokensDetails.CachedTokens > 0, "nothing is known from before: %v", b.Usage)
}

func (w *world) streaming() {
	whole, err := w.client.Chat.Completions.New(context.Background(), w.ask(2))
	must(err)
	p := w.ask(2)
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := w.client.Chat.Completions.NewStreaming(context.Background(), p)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		expect(all.AddChunk(stream.Current()), "a chunk does not fit: %v", stream.Current())
	}
	must(stream.Err())
	expect(all.Choices[0].Message.Content == whole.Choices[0].Message.Content, "streamed %q",
		all.Choices[0].Message.Content)
	expect(all.Usage.CompletionTokens == whole.Usage.CompletionTokens, "usage %v", all.Usage)
}

func (w *world) tools() {
	p := w.ask(3)
	p.MaxCompletionTokens = openai.Int(200)
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Parameters: shared.FunctionParameters{
			"type": "object", "properties": map[string]any{"days": map[string]any{"type": "integer", "minimum": 1,
				"maximum": 7}},
			"required": []string{"days"}, "additionalProperties": false,
		}})}
	p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	a, err := w.client.Chat.Completions.New(context.Background(), p)
	must(err)
	calls := a.Choices[0].Message.ToolCalls
	expect(len(calls) == 1 && calls[0].Function.Name == "weather", "calls %v", calls)
	var v struct{ Days int }
	must(json.Unmarshal([]byte(calls[0].Function.Arguments), &v))
	expect(v.Days >= 1 && v.Days <= 7, "arguments %s", calls[0].Function.Arguments)
	stream := w.client.Chat.Completions.NewStreaming(context.Background(), p)
	var all openai.ChatCompletionAccumulator
	finished := false
	for stream.Next() {
		expect(all.AddChunk(stream.Current()), "a chunk does not fit")
		if call, ok := all.JustFinishedToolCall(); ok {
			finished = true
			expect(call.Arguments == calls[0].Function.Arguments, "streamed %s", call.Arguments)
		}
	}
	must(stream.Err())
	expect(finished, "no call was streamed")
	p.Messages = append(p.Messages, a.Choices[0].Message.ToParam(), openai.ToolMessage("rain", calls[0].ID))
	p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	_, err = w.client.Chat.Completions.New(context.Background(), p)
	must(err)
}

func (w *world) schemas() {
	p := w.ask(4)
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
	must(err)
	var v map[string]bool
	must(json.Unmarshal([]byte(a.Choices[0].Message.Content), &v))
	expect(len(v) == 1, "answer %v", v)
}

func (w *world) errors() {
	p := w.ask(5)
	p.Temperature = openai.Float(-1)
	_, err := w.client.Chat.Completions.New(context.Background(), p)
	var e *openai.Error
	expect(errors.As(err, &e) && e.StatusCode == http.StatusBadRequest && e.Param == "temperature", "error %v", err)
	p = w.ask(5)
	p.Model = "none"
	_, err = w.client.Chat.Completions.New(context.Background(), p)
	expect(errors.As(err, &e) && e.StatusCode == http.StatusNotFound && e.Code == "model_not_found", "error %v", err)
}

func (w *world) cancel() {
	p := w.ask(6)
	p.MaxCompletionTokens = openai.Int(8000)
	p.LogitBias = map[string]int64{"65": 100}
	ctx, cancel := context.WithCancel(context.Background())
	stream := w.client.Chat.Completions.NewStreaming(ctx, p)
	expect(stream.Next(), "no chunk: %v", stream.Err())
	cancel()
	for stream.Next() {
	}
	expect(errors.Is(stream.Err(), context.Canceled), "error %v", stream.Err())
	for begin := time.Now(); ; {
		answer, err := http.Get(strings.TrimSuffix(w.url, "/v1") + "/health")
		must(err)
		var load struct{ Active int }
		must(json.NewDecoder(answer.Body).Decode(&load))
		must(answer.Body.Close())
		if load.Active == 0 {
			return
		}
		expect(time.Since(begin) < 5*time.Second, "an abandoned request continues")
	}
}
