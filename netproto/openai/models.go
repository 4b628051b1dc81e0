package openai

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// modelObject is an entry in the list of models, for OpenAI's and Anthropic's clients.
type modelObject struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created"`
	OwnedBy string    `json:"owned_by"`
	Type    string    `json:"type"`
	Name    string    `json:"display_name"`
	Since   time.Time `json:"created_at"`
}

func (s *Server) modelObject(name string) modelObject {
	return modelObject{name, "model", s.begun.Unix(), request.OwnName, "model", name,
		s.begun.UTC().Truncate(time.Second)}
}

// Cloud describes the large model that a server asks, and for which tokens.
type Cloud struct {
	To        string   `json:"to"`                  // address of the gateway
	Model     string   `json:"model"`               // "" before the first connection
	Connected bool     `json:"connected"`           // now
	Policy    string   `json:"policy"`              // rule that chooses the tokens
	Threshold *float64 `json:"threshold,omitempty"` // of the confidence, below which the large model is asked
	Budget    float64  `json:"budget,omitempty"`    // else share of tokens for which it is asked
	Verify    bool     `json:"verify"`              // it verifies the tokens before they are shown
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	all := []modelObject{}
	for _, name := range s.o.Names {
		all = append(all, s.modelObject(name))
	}
	list := map[string]any{"object": "list", "data": all, "has_more": false,
		"first_id": s.o.Names[0], "last_id": s.o.Names[len(all)-1]}
	if s.o.Cloud != nil {
		list[request.OwnName] = map[string]any{"cloud": s.o.Cloud()}
	}
	write(w, http.StatusOK, request.Encode(list))
}

func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("id")
	if name == "" {
		s.nowhere(w, r)
		return
	}
	if !s.named(name) {
		s.reject(w, r, s.unknownModel(name))
		return
	}
	write(w, http.StatusOK, request.Encode(s.modelObject(name)))
}

// named reports whether a name is one of the model's.
func (s *Server) named(name string) bool {
	return slices.Contains(s.o.Names, name)
}

// unknownModel returns the error for an unknown name of a model.
func (s *Server) unknownModel(name string) *request.Error {
	return request.Refuse(http.StatusNotFound, "model_not_found", "there is no model %s: this server has %s",
		request.Shown(name), strings.Join(s.o.Names, ", ")).Of("model")
}
