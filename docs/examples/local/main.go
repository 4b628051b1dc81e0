// Command local answers one question with a model on this machine.
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
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	question := flag.String("q", "Where does a mavgri sleep, and what does it eat? "+
		"Places: ditch, bog, barn, attic. Foods: figs, peas, eggs, mint.", "the question")
	flag.Parse()

	m, err := pilotfish.Open(*path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	chat := m.NewChat(pilotfish.ChatOptions{})
	defer chat.Close()
	for tok, err := range chat.Send(context.Background(), *question, pilotfish.MaxTokens(100)) {
		if err != nil {
			log.Fatal(err) // what came before stands
		}
		fmt.Print(tok.Text)
	}
	fmt.Println()
}
