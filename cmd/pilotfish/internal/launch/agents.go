package launch

import "strings"

// agent is a program that can use a server of this program. In its texts, {url} stands for the base URL of OpenAI's
// API, {base} for the address without /v1, {model} for the model, {context} for its length, and {key} for the key.
type agent struct {
	name    string
	command string   // "": its settings are only printed
	get     string   // how to install it
	env     []string // NAME=VALUE
	args    []string // before those of the user, which can overrule them
	file    string   // where it has its settings
	text    string   // what belongs there
}

// Of what agents load or send besides, only what concerns their makers' services is switched off.
func knownAgents() []agent {
	return []agent{
		{name: "claude", command: "claude", get: "npm install -g @anthropic-ai/claude-code",
			env: []string{"ANTHROPIC_BASE_URL={base}", "ANTHROPIC_AUTH_TOKEN={key}", "ANTHROPIC_API_KEY=",
				"ANTHROPIC_MODEL={model}", "ANTHROPIC_DEFAULT_HAIKU_MODEL={model}",
				"CLAUDE_CODE_MAX_CONTEXT_TOKENS={context}", "CLAUDE_CODE_AUTO_COMPACT_WINDOW={context}",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "API_TIMEOUT_MS=3600000"}},
		{name: "codex", command: "codex", get: "npm install -g @openai/codex",
			env: []string{"PILOTFISH_API_KEY={key}"},
			args: []string{"-c", `model="{model}"`, "-c", `model_provider="pilotfish"`, "-c",
				`model_providers.pilotfish={name="Pilotfish",base_url="{url}",wire_api="responses",` +
					`env_key="PILOTFISH_API_KEY"}`,
				"-c", "model_context_window={context}", "-c", `web_search="disabled"`}},
		{name: "opencode", command: "opencode", get: "npm install -g opencode-ai",
			env: []string{"OPENCODE_CONFIG_CONTENT=" + `{"provider":{"pilotfish":{"npm":"@ai-sdk/openai-compatible",` +
				`"name":"Pilotfish","options":{"baseURL":"{url}","apiKey":"{key}"},"models":{"{model}":` +
				`{"limit":{"context":{context},"output":8192}}}}},` +
				`"model":"pilotfish/{model}","small_model":"pilotfish/{model}"}`}},
		{name: "qwen", command: "qwen", get: "npm install -g @qwen-code/qwen-code",
			env:  []string{"OPENAI_BASE_URL={url}", "OPENAI_API_KEY={key}", "OPENAI_MODEL={model}"},
			args: []string{"--auth-type", "openai"}},
		{name: "aider", command: "aider", get: "python3 -m pip install aider-chat",
			env:  []string{"OPENAI_API_BASE={url}", "OPENAI_API_KEY={key}"},
			args: []string{"--model", "openai/{model}", "--no-show-model-warnings", "--no-check-update"}},
		{name: "cline", file: "its settings, as API Provider OpenAI Compatible; the last line is for the terminal",
			text: "Base URL: {url}\nAPI Key: {key}\nModel ID: {model}\nContext Window Size: {context}\n\n" +
				"cline auth openai-compatible -b {url} -k {key} -m {model}\n"},
		{name: "continue", file: "~/.continue/config.yaml", text: `models:
  - name: {model}
    provider: openai
    model: {model}
    apiBase: {url}
    apiKey: {key}
    roles: [chat, edit, apply]
    capabilities: [tool_use]
    defaultCompletionOptions: {contextLength: {context}}
`},
		{name: "zed", file: "settings.json, with the key in the environment variable PILOTFISH_API_KEY",
			text: `"language_models": {
  "openai_compatible": {
    "Pilotfish": {
      "api_url": "{url}",
      "available_models": [{"name": "{model}", "max_tokens": {context}, "capabilities": {"tools": true}}]
    }
  }
}
`},
		{name: "llama.vscode", file: "settings.json of Visual Studio Code", text: `"llama-vscode.endpoint": "{base}",
"llama-vscode.endpoint_chat": "{base}",
"llama-vscode.endpoint_tools": "{base}",
"llama-vscode.api_key": "{key}"
`},
		{name: "sdk", file: "the environment of a program with OpenAI's or Anthropic's library",
			text: "OPENAI_BASE_URL={url}\nOPENAI_API_KEY={key}\nANTHROPIC_BASE_URL={base}\nANTHROPIC_API_KEY={key}\n"},
	}
}

func (s *server) fillTemplate(text string) string {
	return strings.NewReplacer("{url}", s.url, "{base}", strings.TrimSuffix(s.url, "/v1"), "{model}", s.model,
		"{context}", s.context, "{key}", s.key).Replace(text)
}
