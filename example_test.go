package pilotfish_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish"
)

// The question is about the world of the demo's models.
const (
	path     = "bench/demo/small.gguf"
	question = "Where does a mavgri sleep, and what does it eat? " +
		"Places: ditch, bog, barn, attic. Foods: figs, peas, eggs, mint."
)

// This example prints an answer token by token.
func Example() {
	ctx := context.Background()
	m, err := pilotfish.Open(path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	chat := m.NewChat(pilotfish.ChatOptions{})
	for tok, err := range chat.Send(ctx, question, pilotfish.MaxTokens(8)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
	// Output: In the bog, and it eats eggs
}

// This example asks a large model at a gateway, which verifies the tokens and replaces at most 7%.
func ExampleVia() {
	ctx := context.Background()
	m, err := pilotfish.Open("qwen2.5-0.5b-instruct-q8_0.gguf", pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	cloud, err := m.Dial(ctx, "gpu.example.org:4433", pilotfish.DialOptions{Pin: "9f86…"})
	if err != nil {
		log.Fatal(err)
	}
	defer cloud.Close()
	chat := m.NewChat(pilotfish.ChatOptions{})
	for tok, err := range chat.Send(ctx, "What is a pilot fish?", pilotfish.Via(cloud, nil)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
	fmt.Println(chat.Stats().CloudTokens, "tokens were the large model's")
}

// This example sets how a large model is used: it verifies each token with a margin of 2 nats, without a budget, and
// every answer is waited for. Both models are of this process.
func ExampleRoute() {
	small, err := pilotfish.Open(path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer small.Close()
	large, err := pilotfish.Open("bench/demo/large.gguf", pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer large.Close()
	cloud, err := large.Serve(pilotfish.ServeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer cloud.Close()
	route := pilotfish.Route{Cloud: cloud, Verify: true, Margin: 2, Deadline: -1}
	text, err := pilotfish.Text(small.NewChat(pilotfish.ChatOptions{}).Send(context.Background(),
		question, route, pilotfish.MaxTokens(8)))
	fmt.Println(text, err)
	// Output: In the barn, and it eats mint <nil>
}

// This example lets the model call a function of the program, and gives it the result.
func ExampleTool() {
	ctx := context.Background()
	m, err := pilotfish.Open("qwen2.5-1.5b-instruct-q8_0.gguf", pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	weather := pilotfish.Tool{Name: "weather", Description: "Current weather in a city", Parameters: []byte(
		`{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`)}
	chat := m.NewChat(pilotfish.ChatOptions{Tools: []pilotfish.Tool{weather}})
	text, err := pilotfish.Text(chat.Send(ctx, "What is the weather in Bern?"))
	if err == nil && len(chat.Calls()) > 0 {
		var results []pilotfish.ToolResult
		for _, call := range chat.Calls() { // such as weather with {"city": "Bern"}
			fmt.Printf("%s(%s)\n", call.Name, call.Arguments)
			results = append(results, pilotfish.ToolResult{ID: call.ID, Content: "dry, 21 degrees"})
		}
		none := pilotfish.ToolUse{None: true} // without it the model may call again
		text, err = pilotfish.Text(chat.SendResults(ctx, results, none))
	}
	fmt.Println(text, err)
}
