// Command gateway answers with a small model here and a large one behind a gateway. To start one on this machine:
//
//	pilotfish cloud -m bench/demo/large.gguf
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pilotfish-ai/pilotfish"
)

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	addr := flag.String("cloud", "127.0.0.1:4433", "the gateway, host:port")
	pin := flag.String("pin", "", "fingerprint of its certificate, as the gateway prints it")
	deadline := flag.Duration("deadline", 800*time.Millisecond, "how long to wait for an answer")
	question := flag.String("q", "Where does a mavgri sleep, and what does it eat? "+
		"Places: ditch, bog, barn, attic. Foods: figs, peas, eggs, mint.", "the question")
	flag.Parse()
	ctx := context.Background()

	m, err := pilotfish.Open(*path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	cloud, err := m.Dial(ctx, *addr, pilotfish.DialOptions{Pin: *pin, Token: os.Getenv("PILOTFISH_TOKEN")})
	if err != nil {
		log.Fatal(err) // no such host, refused, another certificate, another tokenizer …
	}
	defer cloud.Close()

	// Without a router at most 7% of the tokens of all answers are asked for, and nothing of the first 14.
	r, err := pilotfish.NewRouter(pilotfish.RouterOptions{Threshold: new(0.8)})
	if err != nil {
		log.Fatal(err)
	}
	route := pilotfish.Route{Cloud: cloud, Router: r, Deadline: *deadline}
	chat := m.NewChat(pilotfish.ChatOptions{Options: []pilotfish.Option{route}})
	defer chat.Close()
	for tok, err := range chat.Send(ctx, *question, pilotfish.MaxTokens(100)) {
		if err != nil {
			log.Fatal(err)
		}
		if tok.Origin == pilotfish.Large {
			fmt.Print("*") // the large model's
		}
		fmt.Print(tok.Text)
	}
	s := chat.Stats()
	fmt.Printf("\n%d of %d tokens are those of %s\n", s.CloudTokens, s.Tokens, cloud.Model())
	if s.Err != nil { // the answer is whole all the same: the small model stepped in
		fmt.Printf("%d tokens were not answered in time: %v\n", s.Timeouts, s.Err)
	}
}
