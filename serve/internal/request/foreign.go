package request

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// Clients send fields that this server does not obey: those of other servers (OpenAI, Azure, OpenRouter, Mistral,
// Anthropic, llama-server, vLLM, SGLang, Ollama, LM Studio), of libraries such as LiteLLM and LangChain, and those that
// were invented after this server. They are ignored, and named in the response's header. Only fields without which the
// answer would have another meaning are refused, unless their values match what this server does.

// aliases are names of other servers for fields of this one.
var aliases = map[string]string{"random_seed": "seed", "repetition_penalty": "repeat_penalty"}

// ignoredFields cannot change an answer: they concern accounts, costs, routing and caching, or are parameters of
// features that other fields switch on.
var ignoredFields = []string{
	"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
	"prompt_cache_options", "prediction", "user_id", "session_id", "trace_id", "request_id", "rid", "priority", "tags",
	"cache_salt", "provider", "models", "route", "usage", "include", // OpenRouter
	"cache_prompt", "id_slot", "slot_id", "n_keep", "n_discard", "n_cache_reuse", "timings_per_token",
	"return_progress", "return_tokens", "t_max_prompt_ms", "speculative.n_max", "speculative.n_min",
	"speculative.p_min", // llama-server
	"mirostat_tau", "mirostat_eta", "dynatemp_exponent", "xtc_threshold", "dry_base", "dry_allowed_length",
	"dry_penalty_last_n", "dry_sequence_breakers", // without the features that they belong to
	"keep_alive", "ttl", "draft_model", // Ollama, LM Studio
	"spaces_between_special_tokens", "return_token_ids", "return_tokens_as_token_ids",
	"include_reasoning", "separate_reasoning", "stream_reasoning", "reasoning_format", // there is no reasoning
}

// unsupported describes a field that has no effect here. With values that match what this server does, this is no loss.
type unsupported struct {
	values string // JSON values, separated by blanks
	hint   string // what to use instead of a value that is refused
	alters bool   // without it the answer has another meaning: other values are refused
}

// hintSchema is the hint for several fields.
const hintSchema = "give a JSON schema as response_format"

// unsupportedFields are the fields of requests without effect here. docs/use/serving.md lists those that alter the
// answer.
var unsupportedFields = map[string]unsupported{
	"audio":                 {hint: "this model makes no sound", alters: true},
	"modalities":            {`["text"]`, "this model makes text alone", true},
	"image_data":            {hint: "this model reads text alone", alters: true},
	"images":                {hint: "this model reads text alone", alters: true},
	"documents":             {hint: "give them in a message", alters: true},
	"guided_regex":          {hint: hintSchema, alters: true},
	"guided_choice":         {hint: hintSchema, alters: true},
	"guided_grammar":        {hint: hintSchema, alters: true},
	"grammar":               {hint: hintSchema, alters: true},
	"regex":                 {hint: hintSchema, alters: true},
	"ebnf":                  {hint: hintSchema, alters: true},
	"structural_tag":        {hint: hintSchema, alters: true},
	"stop_token_ids":        {hint: "give texts as stop", alters: true},
	"bad_words":             {hint: "give logit_bias", alters: true},
	"allowed_token_ids":     {hint: "give logit_bias", alters: true},
	"min_tokens":            {alters: true},
	"do_sample":             {`true`, "give temperature", true},
	"add_generation_prompt": {`true`, "", true},
	"continue_final_message": {`false`, "give the text to /v1/completions, or as the assistant's last message to " +
		"/v1/messages", true},
	"options":    {hint: "give its fields by OpenAI's names", alters: true},
	"extra_body": {hint: "give its fields beside the others", alters: true},

	"verbosity":               {values: `"medium"`},
	"reasoning_effort":        {values: `"none" "minimal"`},
	"reasoning":               {values: `{"enabled": false} {"effort": "none"} {"exclude": true}`},
	"thinking":                {values: `{"type": "disabled"} {"type": "adaptive"}`},
	"typical_p":               {values: `1`},
	"typ_p":                   {values: `1`},
	"tfs_z":                   {values: `1`},
	"top_n_sigma":             {values: `-1`},
	"min_keep":                {values: `1`},
	"repeat_last_n":           {values: `64`},
	"repetition_context_size": {values: `64`},
	"length_penalty":          {values: `1`},
	"num_beams":               {values: `1`},
	"skip_special_tokens":     {values: `true`},
	"parse_tool_calls":        {values: `true`},
	"truncation":              {values: `"disabled"`},
}

func (f *fields) applyAliases() {
	for name, here := range aliases {
		if raw, ok := f.takeField(name); ok && f.all[here] == nil {
			f.all[here] = raw
		}
	}
}

func (f *fields) acceptForeignFields() {
	f.ignoreHarmless(ignoredFields...)
	for _, name := range f.remainingNames() {
		if one, known := unsupportedFields[name]; known {
			f.checkUnsupported(name, one)
		}
	}
}

// checkUnsupported accepts a field with one of the values that match what this server does, or with an empty one. It
// ignores or refuses it with others.
func (f *fields) checkUnsupported(name string, one unsupported) {
	raw, ok := f.all[name]
	if !ok || matchesValue(raw, one.values) || isEmpty(raw) && one.values != "true" {
		delete(f.all, name)
		return
	}
	if !one.alters {
		f.ignoreField(name)
		return
	}
	hint := "leave it out"
	if one.values != "" {
		hint += ", or give " + one.values
	}
	if one.hint != "" {
		hint = one.hint + ", and " + hint
	}
	f.refuseField(name, "this would change the answer, and is not supported: "+hint)
}

func matchesValue(raw json.RawMessage, values string) bool {
	var got any
	if json.Unmarshal(raw, &got) != nil {
		return false
	}
	for d := json.NewDecoder(bytes.NewReader([]byte(values))); d.More(); {
		var v any
		if d.Decode(&v) != nil {
			return false
		}
		if reflect.DeepEqual(got, v) {
			return true
		}
	}
	return false
}

// Fields of parts of a request that do not change an answer: other forms of reasoning, caching and pricing of prompts,
// and what servers add to answers and clients send back.
var ignoredInMessages = []string{
	"name", "id", "object", "created_at", "timestamp", "status", "metadata", "cache_control", "refusal",
	"annotations", "citations", "reasoning", "reasoning_content", "reasoning_details", "thinking",
	"thinking_blocks", "model", "provider_specific_fields", "finish_reason", "index", "parsed", "tool_name",
	"is_error",
}

var ignoredInParts = []string{"id", "cache_control", "annotations", "citations", "logprobs"}

var ignoredInCalls = []string{
	"index", "cache_control", "extra_content", "provider_specific_fields", "thought_signature", "status",
}

var ignoredInTools = []string{
	"cache_control", "defer_loading", "output_schema", "input_examples", "eager_input_streaming", "async",
}

// withoutFields returns a JSON object without some of its fields. The others keep their text.
func withoutFields(raw json.RawMessage, names []string) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return raw
	}
	out, left := []byte("{"), false
	for d.More() {
		var value json.RawMessage
		key, err := d.Token()
		if err != nil || d.Decode(&value) != nil {
			return raw
		}
		if name, _ := key.(string); slices.Contains(names, name) {
			left = true
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, Encode(key)...), ':'), value...)
	}
	if !left {
		return raw
	}
	return append(out, '}')
}
