// Command inprocess answers with two models of this process: the large one is asked for the few tokens that matter, or
// looks at each token with -verify, and then the text is its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish"
)

func main() {
	log.SetFlags(0)
	small := flag.String("m", "bench/demo/small.gguf", "small model, a GGUF file")
	large := flag.String("large", "bench/demo/large.gguf", "large model with the same tokenizer")
	router := flag.String("router", "bench/demo/router.gguf", "router trained for the small model")
	verify := flag.Bool("verify", false, "have the large model look at each token")
	question := flag.String("q", "Where does a mavgri sleep, and what does it eat? "+
		"Places: ditch, bog, barn, attic. Foods: figs, peas, eggs, mint.", "the question")
	flag.Parse()

	edge, err := pilotfish.Open(*small, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer edge.Close()
	big, err := pilotfish.Open(*large, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer big.Close()
	cloud, err := big.Serve(pilotfish.ServeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer cloud.Close() // before big
	// Without a threshold the budget is 7% of all answers so far, which leaves nothing for the first 14 tokens.
	r, err := pilotfish.NewRouter(pilotfish.RouterOptions{File: *router, Threshold: new(0.8)})
	if err != nil {
		log.Fatal(err)
	}

	chat := edge.NewChat(pilotfish.ChatOptions{})
	defer chat.Close()
	route := pilotfish.Route{Cloud: cloud, Router: r, Deadline: -1, Verify: *verify}
	for tok, err := range chat.Send(context.Background(), *question, route, pilotfish.MaxTokens(100)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
	s := chat.Stats()
	fmt.Printf("\n%d of %d tokens are the large model's\n", s.CloudTokens, s.Tokens)
}
