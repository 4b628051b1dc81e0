// Command stats prints what an answer took: each question to the large model as it is settled, each place that the
// small model evaluated, and the sums.
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
	defer cloud.Close()

	evaluated := 0
	heads := pilotfish.WatchHeads(func(pilotfish.Head) { evaluated++ })
	events := pilotfish.Watch(func(e pilotfish.Event) {
		if q := e.Escalation; q != nil { // or e.Token, e.Pass, e.Warming, …
			fmt.Printf("position %d: %s\n", q.Pos, q.Outcome)
		}
	})
	chat := edge.NewChat(pilotfish.ChatOptions{})
	r, err := pilotfish.NewRouter(pilotfish.RouterOptions{Threshold: new(0.8)})
	if err != nil {
		log.Fatal(err)
	}
	route := pilotfish.Route{Cloud: cloud, Router: r, Deadline: -1, Serial: true}
	for _, err := range chat.Send(context.Background(), *question, route, events, heads) {
		if err != nil {
			log.Fatal(err)
		}
	}
	s := chat.Stats()
	fmt.Printf("%s\n%d tokens, %d of them the large model's, %d questions, ended by %q\n",
		s.Text, s.Tokens, s.CloudTokens, s.Asks, s.Stop)
	log.Printf("first token after %v, the others in %v; %d places evaluated", s.PromptTime, s.DecodeTime, evaluated)
}
