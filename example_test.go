package pilotfish_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish"
)

// This example prints an answer token by token.
func Example() {
	ctx := context.Background()
	m, err := pilotfish.Open("qwen2.5-0.5b-instruct-q8_0.gguf", pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	chat := m.NewChat(pilotfish.ChatOptions{System: "You are brief."})
	for tok, err := range chat.Send(ctx, "What is a pilot fish?") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
}

// This example does the same with a large model at a gateway, which chooses 7% of the tokens.
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

// This example sets how the large model at a gateway is used: it verifies each token, and every answer is waited for.
func ExampleRoute() {
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
	route := pilotfish.Route{Cloud: cloud, Verify: true, Margin: 2, Deadline: -1}
	chat := m.NewChat(pilotfish.ChatOptions{})
	for tok, err := range chat.Send(ctx, "What is a pilot fish?", route, pilotfish.MaxTokens(100)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
}
