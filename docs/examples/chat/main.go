// Command chat is a conversation on the terminal: a line of input is a question.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/pilotfish-ai/pilotfish"
)

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	system := flag.String("system", "", "system message")
	flag.Parse()

	m, err := pilotfish.Open(*path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	chat := m.NewChat(pilotfish.ChatOptions{
		System:  *system,
		Options: []pilotfish.Option{pilotfish.MaxTokens(200)}, // of every answer
	})
	defer chat.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		for tok, err := range chat.Send(context.Background(), lines.Text()) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(tok.Text)
		}
		fmt.Println()
		s := chat.Stats() // the turns before are not computed again
		fmt.Printf("[%d tokens, %d of the prompt's %d from before]\n", s.Tokens, s.ReusedTokens, s.PromptTokens)
	}
	for _, turn := range chat.Messages() {
		fmt.Printf("%s: %s\n", turn.Role, turn.Content)
	}
}
