package request

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// Clients written for other servers send the fields of those: OpenAI, Azure, OpenRouter, Mistral and Anthropic,
// llama-server, vLLM, SGLang, Ollama, LM Studio, and libraries such as LiteLLM and LangChain. Fields that cannot change
// an answer are ignored. Other fields are accepted with values that match what this server does, and refused with other
// values. Any field is accepted with a value that switches nothing on: see [fields.end].

// ignoredFields cannot change an answer: they concern accounts, costs, routing and caching, or are parameters of
// features that must be switched on by other fields, which are refused.
var ignoredFields = []string{
	"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
	"prediction", "user_id", "session_id", "trace_id", "request_id", "rid", "priority", "tags", "cache_salt",
	"provider", "models", "route", "usage", "include", // OpenRouter
	"cache_prompt", "id_slot", "slot_id", "n_keep", "n_discard", "n_cache_reuse", "timings_per_token",
	"return_progress", "return_tokens", "t_max_prompt_ms", "speculative.n_max", "speculative.n_min",
	"speculative.p_min", // llama-server
	"mirostat_tau", "mirostat_eta", "dynatemp_exponent", "xtc_threshold", "dry_base", "dry_allowed_length",
	"dry_penalty_last_n", "dry_sequence_breakers", // without the features that they belong to
	"keep_alive", "ttl", "draft_model", // Ollama, LM Studio
	"spaces_between_special_tokens", "return_token_ids", "return_tokens_as_token_ids",
	"include_reasoning", "separate_reasoning", "stream_reasoning", "reasoning_format", // there is no reasoning
}

// idle describes a field that is accepted only with values that match what this server does. The hint explains what to
// use instead of another value.
type idle struct {
	values string // JSON values, separated by blanks
	hint   string
}

// Hints for several fields.
const (
	hintSchema = "give a JSON schema as response_format"
	hintThinks = "this model answers without thinking before"
)

// idleFields are the idle fields of requests.
var idleFields = map[string]idle{
	"functions":               {`[]`, "give functions as tools"},
	"function_call":           {`"none" "auto"`, "give tools and tool_choice"},
	"audio":                   {hint: "this model makes no sound"},
	"web_search_options":      {hint: "give what was found as a message"},
	"web_search":              {`false`, "give what was found as a message"},
	"documents":               {`[]`, "give them in a message"},
	"image_data":              {`[]`, "this model reads text alone"},
	"images":                  {`[]`, "this model reads text alone"},
	"modalities":              {`[] ["text"]`, "this model makes text alone"},
	"verbosity":               {`"medium"`, ""},
	"reasoning_effort":        {`"none" "minimal"`, hintThinks},
	"enable_thinking":         {`false`, hintThinks},
	"think":                   {`false`, hintThinks},
	"reasoning":               {`{} {"enabled": false} {"effort": "none"} {"exclude": true}`, hintThinks},
	"thinking":                {`{} {"type": "disabled"}`, hintThinks},
	"thinking_budget":         {`0`, hintThinks},
	"chat_template_kwargs":    {`{} {"enable_thinking": false} {"thinking": false}`, ""},
	"guided_json":             {`""`, hintSchema},
	"guided_regex":            {`""`, hintSchema},
	"guided_choice":           {`[]`, hintSchema},
	"guided_grammar":          {`""`, hintSchema},
	"structured_outputs":      {`{}`, hintSchema},
	"json_schema":             {`""`, hintSchema},
	"grammar":                 {`""`, hintSchema},
	"regex":                   {`""`, hintSchema},
	"ebnf":                    {`""`, hintSchema},
	"format":                  {`""`, hintSchema},
	"repetition_penalty":      {`1`, "give repeat_penalty"},
	"random_seed":             {hint: "give seed"},
	"n_predict":               {`-1`, "give max_tokens"},
	"max_new_tokens":          {hint: "give max_tokens"},
	"max_output_tokens":       {hint: "give max_tokens"},
	"stop_token_ids":          {`[]`, "give texts as stop"},
	"bad_words":               {`[]`, "give logit_bias"},
	"allowed_token_ids":       {`[]`, "give logit_bias"},
	"n_probs":                 {`0`, "give logprobs"},
	"typical_p":               {`1`, ""},
	"typ_p":                   {`1`, ""},
	"tfs_z":                   {`1`, ""},
	"top_n_sigma":             {`-1 0`, ""},
	"min_keep":                {`0 1`, ""},
	"repeat_last_n":           {`64`, ""},
	"repetition_context_size": {`64`, ""},
	"length_penalty":          {`1`, ""},
	"num_beams":               {`1`, ""},
	"do_sample":               {`true`, "give temperature"},
	"skip_special_tokens":     {`true`, ""},
	"add_generation_prompt":   {`true`, ""},
	"parse_tool_calls":        {`true`, ""},
	"options":                 {`{}`, "give its fields by OpenAI's names"},
	"extra_body":              {`{}`, "give its fields beside the others"},
	"truncation":              {`"disabled"`, ""},
}

// foreign accepts fields of other servers that do not change what this server does.
func (f *fields) foreign() {
	f.harmless(ignoredFields...)
	for _, name := range f.names() {
		if one, known := idleFields[name]; known {
			f.idle(name, one)
		}
	}
}

// idle accepts a field with one of its idle values.
func (f *fields) idle(name string, one idle) {
	raw, ok := f.take(name)
	if !ok || f.err != nil || means(raw, one.values) {
		return
	}
	hint := "leave it out"
	if one.values != "" {
		hint += ", or give " + one.values
	}
	if one.hint != "" {
		hint = one.hint + ", and " + hint
	}
	f.fail(name, "this would change the answer, and is not supported: %s", hint)
	f.err.Code = "unsupported_parameter"
}

// means reports whether a JSON value is in a list of values.
func means(raw json.RawMessage, values string) bool {
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

var ignoredInTools = []string{"cache_control", "defer_loading"}

// without returns a JSON object without some of its fields. The others keep their text.
func without(raw json.RawMessage, names []string) json.RawMessage {
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
