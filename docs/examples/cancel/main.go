// Command cancel ends answers early: by leaving the loop, by a deadline, and by a cause of the program's own. The chat
// goes on after each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/pilotfish-ai/pilotfish"
)

var errEnough = errors.New("that is enough")

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	flag.Parse()
	m, err := pilotfish.Open(*path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	chat := m.NewChat(pilotfish.ChatOptions{Options: []pilotfish.Option{pilotfish.Settings{IgnoreEnd: true}}})
	defer chat.Close()

	n := 0
	for _, err := range chat.Send(context.Background(), "Tell me something.") {
		if err != nil {
			log.Fatal(err)
		}
		if n++; n == 3 {
			break // nothing runs on behind it
		}
	}
	fmt.Println("left after", n, "tokens")

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	for _, err := range chat.Send(ctx, "Tell me more.") {
		if err != nil {
			fmt.Println("too slow:", errors.Is(err, context.DeadlineExceeded))
		}
	}

	ctx, enough := context.WithCancelCause(context.Background())
	for _, err := range chat.Send(ctx, "And more.") {
		if err != nil {
			fmt.Println(err, errors.Is(err, errEnough), errors.Is(err, context.Canceled))
		}
		enough(errEnough) // usually from another goroutine
	}
}
