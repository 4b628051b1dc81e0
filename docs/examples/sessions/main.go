// Command sessions generates several texts at once: each in a goroutine and a session of its own, with the weights in
// memory once.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"sync"

	"github.com/pilotfish-ai/pilotfish"
)

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	flag.Parse()
	m, err := pilotfish.Open(*path, pilotfish.Options{Context: 512})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	beginnings := []string{
		"In the barn, and it eats mint: so say all", "In the bog, and it eats eggs: so say all",
		"In the reef, and it eats figs: so say all", "In the attic, and it eats sap: so say all",
	}
	texts := make([]string, len(beginnings))
	var all sync.WaitGroup
	for i, text := range beginnings {
		all.Go(func() {
			s := m.NewSession() // a text as it stands, without a chat's turns
			defer s.Close()
			more, err := pilotfish.Text(s.Generate(context.Background(), text, pilotfish.MaxTokens(12)))
			if err != nil {
				log.Print(err)
				return
			}
			texts[i] = text + more
		})
	}
	all.Wait()
	for _, text := range texts {
		fmt.Println(text)
	}
}
