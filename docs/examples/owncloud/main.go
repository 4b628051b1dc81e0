// Command owncloud asks something of the program's own in place of a large model: here a table of words that follow.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
)

// table has what follows some texts. Another cloud could ask a service on the network.
type table struct {
	model *pilotfish.Model // for its vocabulary
	next  map[string]string
}

// Ask may be called many times at once. An error leaves the small model's token in place.
func (t table) Ask(ctx context.Context, q pilotfish.Question) (pilotfish.Answer, error) {
	text, err := t.model.Detokenize(q.Context)
	if err != nil {
		return pilotfish.Answer{}, err
	}
	for end, next := range t.next {
		if !strings.HasSuffix(text, end) {
			continue
		}
		ids, err := t.model.Tokenize(next, false)
		if err != nil {
			return pilotfish.Answer{}, err
		}
		return pilotfish.Answer{Token: ids[0]}, nil
	}
	return pilotfish.Answer{}, fmt.Errorf("nothing is known of what follows %q", text)
}

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

	cloud := table{m, map[string]string{"assistant\nIn the": " barn", " eats": " mint"}}
	below := 0.8 // of the margin between the two most probable tokens: then the table is asked
	router, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "margin", Threshold: &below})
	if err != nil {
		log.Fatal(err)
	}
	chat := m.NewChat(pilotfish.ChatOptions{})
	for tok, err := range chat.Send(context.Background(), *question, pilotfish.Via(cloud, router)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
	fmt.Printf("\n%d tokens of the table\n", chat.Stats().CloudTokens)
}
