package serve

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// modelObject is an entry in the list of models, for OpenAI's and Anthropic's clients. Agents look for the length of
// the context, and for what the model can do, in the fields of the server that they were written for.
type modelObject struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created"`
	OwnedBy string    `json:"owned_by"`
	Type    string    `json:"type"`
	Name    string    `json:"display_name"`
	Since   time.Time `json:"created_at"`
	*modelAbilities
}

// modelAbilities are the same for all names of a model.
type modelAbilities struct {
	VLLM       int `json:"max_model_len"`         // the context in tokens, as all that follow
	LMStudio   int `json:"loaded_context_length"` // "
	OpenRouter int `json:"context_length"`        // "
	Groq       int `json:"context_window"`        // "
	Anthropic  int `json:"max_input_tokens"`      // of a prompt
	Limit      int `json:"max_context_length"`    // that the model allows, as LM Studio calls it
	Meta       struct {
		Limit int `json:"n_ctx_train"`
		Size  int `json:"n_ctx"`
		Vocab int `json:"n_vocab"`
	} `json:"meta"` // of llama-server
	Capabilities []string            `json:"capabilities"`         // in the words of LM Studio and of Ollama
	Parameters   []string            `json:"supported_parameters"` // in the words of OpenRouter
	Architecture map[string][]string `json:"architecture"`         // "
}

func (s *Server) detectAbilities() *modelAbilities {
	n := s.model.Context()
	limit := max(s.model.ContextLimit(), n)
	a := &modelAbilities{VLLM: n, LMStudio: n, OpenRouter: n, Groq: n, Anthropic: s.maxPromptTokens(), Limit: limit,
		Capabilities: []string{"completion"},
		Parameters: []string{"frequency_penalty", "logit_bias", "logprobs", "max_tokens", "min_p", "presence_penalty",
			"repetition_penalty", "response_format", "seed", "stop", "structured_outputs", "temperature", "top_k",
			"top_logprobs", "top_p"},
		Architecture: map[string][]string{"input_modalities": {"text"}, "output_modalities": {"text"}},
	}
	a.Meta.Limit, a.Meta.Size, a.Meta.Vocab = limit, n, s.vocabularySize()
	if s.supportsTools() {
		a.Capabilities = append(a.Capabilities, "tools", "tool_use")
		a.Parameters = append(a.Parameters, "tool_choice", "tools")
	}
	if s.defaults.Thinks {
		a.Capabilities = append(a.Capabilities, "thinking")
		a.Parameters = append(a.Parameters, "include_reasoning", "reasoning")
	}
	if _, err := s.infillTokens(pilotfish.Infill{}); err == nil {
		a.Capabilities = append(a.Capabilities, "insert")
	}
	return a
}

// supportsTools reports whether the model's chat template writes tools into the prompt.
func (s *Server) supportsTools() bool {
	const name = "name_of_a_tool"
	ids, err := s.model.ChatTokens([]pilotfish.Message{{Role: "user", Content: "?"}}, [][]byte{
		[]byte(`{"type":"function","function":{"name":"` + name + `",` +
			`"description":"?","parameters":{"type":"object","properties":{}}}}`)})
	var text []byte
	for _, id := range ids {
		text = append(text, s.tokenBytes(id)...)
	}
	return err == nil && bytes.Contains(text, []byte(name))
}

func (s *Server) modelObject(name string) modelObject {
	return modelObject{name, "model", s.begun.Unix(), request.OwnName, "model", name,
		s.begun.UTC().Truncate(time.Second), s.abilities()}
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
	writeJSON(w, http.StatusOK, request.Encode(list))
}

func (s *Server) getModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("id")
	if name == "" {
		s.rejectUnknownURL(w, r)
		return
	}
	if !s.hasModelName(name) {
		s.rejectRequest(w, r, s.unknownModel(name))
		return
	}
	writeJSON(w, http.StatusOK, request.Encode(s.modelObject(name)))
}

func (s *Server) hasModelName(name string) bool {
	return slices.Contains(s.o.Names, name)
}

func (s *Server) unknownModel(name string) *request.Error {
	return request.Refuse(http.StatusNotFound, "model_not_found", "there is no model %s: this server has %s",
		request.Shown(name), strings.Join(s.o.Names, ", ")).Of("model")
}
