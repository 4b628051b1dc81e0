// Command ownsampler chooses tokens itself: never one of a word that was used already, if there is another.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish"
)

// without picks the most probable token that is not banned.
type without struct{ banned map[int32]bool }

// Pick is a function of h alone: it is called for drafts too, and not in the order of the text.
func (w without) Pick(h pilotfish.Head) int32 {
	for _, c := range h.Best {
		if !w.banned[c.ID] {
			return c.ID
		}
	}
	return h.Best[0].ID // all of them are
}

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	word := flag.String("ban", " bog", "a word that is not to be said")
	question := flag.String("q", "Where does a mavgri sleep, and what does it eat? "+
		"Places: ditch, bog, barn, attic. Foods: figs, peas, eggs, mint.", "the question")
	flag.Parse()
	m, err := pilotfish.Open(*path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	ids, err := m.Tokenize(*word, false)
	if err != nil {
		log.Fatal(err)
	}
	own := without{map[int32]bool{ids[0]: true}}

	chat := m.NewChat(pilotfish.ChatOptions{})
	options := []pilotfish.Option{
		pilotfish.SampleBy(own), pilotfish.MaxTokens(100),
		pilotfish.Best(10), // the ten most probable tokens in each Head
	}
	for tok, err := range chat.Send(context.Background(), *question, options...) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(tok.Text)
	}
	fmt.Println()
}
