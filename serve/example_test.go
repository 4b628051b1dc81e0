package serve_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// This example mounts the APIs in a program's own web server, and sends a request to it.
func Example() {
	model, err := pilotfish.Open("../bench/demo/small.gguf", pilotfish.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()

	mux := http.NewServeMux()
	mux.Handle("/v1/", serve.New(model, serve.Options{}))

	web := httptest.NewServer(mux)
	defer web.Close()
	answer, err := http.Post(web.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt": "In the", "max_tokens": 4}`))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status, strings.Contains(string(body), `"finish_reason":"length"`))
	// Output: 200 OK true
}
