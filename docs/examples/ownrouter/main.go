// Command ownrouter decides itself which tokens the large model is asked for: those with a small margin or a high
// entropy, but at most so many in one text.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish"
)

// thrifty asks where the small model hesitates, until it has asked most times.
type thrifty struct{ most uint64 }

// Decide is a function of h alone. How often it has asked on this text it keeps in the state, not in a field: it is
// called for drafts too, of which some do not hold.
func (t thrifty) Decide(h pilotfish.Head) pilotfish.Decision {
	asked := h.State
	ask := asked < t.most && (h.Margin < 0.3 || h.Entropy > 1.5)
	if ask {
		asked++
	}
	return pilotfish.Decision{Confidence: float32(h.Margin), Ask: ask, State: asked}
}

func main() {
	log.SetFlags(0)
	small := flag.String("m", "bench/demo/small.gguf", "small model, a GGUF file")
	large := flag.String("large", "bench/demo/large.gguf", "large model with the same tokenizer")
	most := flag.Uint64("most", 2, "most tokens that are asked for")
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

	route := pilotfish.Route{Cloud: cloud, Router: thrifty{*most}, Deadline: -1}
	for tok, err := range edge.NewChat(pilotfish.ChatOptions{}).Send(context.Background(), *question, route) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-5s %.2f %q\n", tok.Origin, tok.Confidence, tok.Text)
	}
}
