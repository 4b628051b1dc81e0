// Command http streams answers over HTTP: POST a question to /ask and read the answer as it comes. It ends with Ctrl-C.
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/pilotfish-ai/pilotfish"
)

// server answers with one model. Requests that come at the same time share its weights.
type server struct{ model *pilotfish.Model }

func (s server) ask(w http.ResponseWriter, r *http.Request) {
	question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<10))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	chat := s.model.NewChat(pilotfish.ChatOptions{})
	defer chat.Close()
	flush := http.NewResponseController(w)
	// The request's context ends when the client goes away, and the answer with it.
	for tok, err := range chat.Send(r.Context(), string(question), pilotfish.MaxTokens(200)) {
		if err != nil {
			log.Print(err)
			panic(http.ErrAbortHandler) // the client sees that the answer is not whole
		}
		if _, err := io.WriteString(w, tok.Text); err != nil || flush.Flush() != nil {
			return
		}
	}
}

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	addr := flag.String("listen", "127.0.0.1:8080", "address")
	flag.Parse()
	m, err := pilotfish.Open(*path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /ask", server{m}.ask)
	var srv http.Server
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { srv.Close() })
	log.Printf("try: curl --no-buffer -d 'Where does a mavgri sleep?' http://%s/ask", l.Addr())
	if err := srv.Serve(l); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}
