// Command structured asks for an answer that a program can read: JSON of a given schema.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish"
)

const schema = `{
	"type": "object",
	"properties": {
		"place": {"enum": ["ditch", "bog", "barn", "attic"]},
		"food":  {"enum": ["figs", "peas", "eggs", "mint"]}
	},
	"required": ["place", "food"],
	"additionalProperties": false
}`

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/large.gguf", "model, a GGUF file")
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
	text, err := pilotfish.Text(chat.Send(context.Background(), *question, pilotfish.Settings{Schema: []byte(schema)}))
	if err != nil {
		log.Fatal(err) // such as a *pilotfish.SchemaError
	}
	var answer struct{ Place, Food string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		log.Fatal(err) // the context was full before the answer was whole: chat.Stats().Stop says so
	}
	fmt.Printf("%s and %s\n", answer.Place, answer.Food)
}
