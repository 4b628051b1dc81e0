// Command server answers requests in OpenAI's and Anthropic's APIs, beside other pages of its own.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/serve"
)

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/small.gguf", "model, a GGUF file")
	listen := flag.String("listen", "127.0.0.1:8080", "address of the server")
	flag.Parse()

	model, err := pilotfish.Open(*path, pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()

	http.Handle("/v1/", serve.New(model, serve.Options{}))
	http.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/v1\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
