package cli

// flagTable declares the flags of the program pilotfish, by subject. Those of pilotfish-bench alone are declared there.
var flagTable = []FlagDecl{
	// The model on this device.
	{Name: "model", Short: "m", Often: true, Env: true,
		Help: "the model: a GGUF `file`, or the name of a downloaded model, OWNER/NAME:QUANT"},
	{Name: "large", Excludes: "cloud", Help: "the large model, a GGUF `file`, run in this process"},
	{Name: "threads", Span: "0 1024", Short: "t", Env: true,
		Help: "number of CPU threads; 0: one per fast core that this process may use"},
	{Name: "ctx", Span: "0", Short: "c", Often: true, Env: true,
		Help: "maximum length of prompt and answer together, in `tokens`; 0: 4096, for serve what memory allows, " +
			"or the model's limit"},
	{Name: "kv", Choices: "auto f16 f32", Env: true,
		Help: "`type` of the KV cache: f16, f32 or auto"},
	{Name: "backend", Values: "cpu metal soft", Env: true,
		Help: "where the model runs: `cpu`, metal, or soft (emulated kernels, for testing)"},
	{Name: "huge-pages", Choices: "auto on off", Unless: "backend=metal backend=soft", Env: true,
		Help: "copy weights into huge pages, which are faster: auto, on or off"},
	{Name: "exact", Excludes: "backend=metal backend=soft kv=f16",
		Help: "compute in float32 and plain Go, slowly: the reference"},

	// The prompt and the answer.
	{Name: "system", Empty: true, Unless: "raw tokens load", Often: true, Env: true,
		Help: "system `message`; \"\" for an empty one (default: the model's own)"},
	{Name: "think", Choices: "auto on off", Unless: "raw tokens", Env: true,
		Help: "let the model think before it answers: on, off or auto, as its chat template has it"},
	{Name: "raw", Unless: "tokens", Help: "use texts as they are, without chat template"},
	{Name: "tokens", Help: "the text as token `ids`: 1,2,3"},
	{Name: "max-tokens", Span: "0", Short: "n", Often: true, Env: true,
		Help: "maximum number of tokens of an answer; 0: as many as fit into the context"},
	{Name: "ignore-eos", Unless: "json-schema", Help: "continue after an end token"},
	{Name: "seed", Needs: "temp", Help: "random seed, a `number`: the same seed gives the same result"},
	{Name: "stop", Help: "stop before this `text`, with Go's escapes; may be repeated"},
	{Name: "logit-bias", Help: "add to the logit of a token: `ID=BIAS`, -100 to 100; may be repeated"},
	{Name: "json-schema", Files: "json", Often: true,
		Help: "answer with JSON of this schema: a `file`, or the schema if it begins with {"},
	{Name: "logprobs", Span: "1 20", Needs: "json",
		Help: "with --json: `number` of best tokens with log-probabilities, 1 to 20"},
	{Name: "json", Often: true,
		Help: "print JSON, one object per line"},
	{Name: "load", Files: "json", Often: true, Help: "continue the conversation that /save wrote to this `file`"},

	// The gateway.
	{Name: "cloud", Excludes: "local mode=local", Often: true, Env: true, Help: "address of the gateway, `host:port`"},
	{Name: "pin", Needs: "cloud", Often: true, Env: true,
		Help: "`fingerprint` of the gateway's certificate, as `pilotfish cloud` " +
			"prints it (default: any certificate that this system trusts)"},
	{Name: "token-file", Needs: "cloud", Env: true,
		Help: "`file` with the access token (default: PILOTFISH_TOKEN)"},
	{Name: "require-cloud", Needs: "cloud",
		Help: "exit with 1 if a question stays unanswered; =false: none is needed"},
	{Name: "local", Often: true, Help: "send nothing to a cloud, whatever other settings say"},

	// Routing and drafting.
	{Name: "mode", Needs: "cloud", Choices: "local serial pipelined",
		Help: "decoding `mode`: pipelined, serial, which waits for each answer, or local, which is --local"},
	{Name: "policy", Needs: "cloud", Choices: "never always random margin entropy learned verify judge", Env: true,
		Help: "`rule` for the large model's tokens: verify or judge, which replace tokens of the small one, or for " +
			"asking: never, always, random, margin, entropy or learned"},
	{Name: "router", Unless: "policy=never policy=always policy=random policy=margin policy=entropy policy=verify",
		Needs: "cloud", Files: "gguf", Env: true,
		Help: "router `file`, for the policies learned and judge; its certificate sets policy and threshold"},
	{Name: "threshold", Span: "0 1", Excludes: "budget", Unless: "policy=never policy=always policy=verify",
		Needs: "cloud", Env: true,
		Help: "ask if the confidence is below this, 0 to 1, instead of a budget"},
	{Name: "budget", Span: ">0 1", Unless: "policy=never policy=always verify", Needs: "cloud", Often: true, Env: true,
		Help: "have at most this `share` of the tokens from the cloud, above 0 and up to 1"},
	{Name: "budget-state", Needs: "cloud", Unless: "threshold policy=never policy=always verify",
		Help: "`file` with what the budget has spent, or off (default: one in the cache folder)"},
	{Name: "deadline", Needs: "cloud", Values: "off auto 800ms", Often: true, Env: true,
		Help: "maximum `time` to wait for an answer before the small model's token is used instead; auto: three " +
			"times what this gateway takes, at least 800ms, and for the first answer as long as reading the prompt " +
			"takes; off: no limit"},
	{Name: "verify", Needs: "cloud", Values: "off 0", Often: true,
		Help: "let the cloud check every token before it is shown: the `margin` in nats by " +
			"which it must prefer its own token to replace one, 0 for exactly its own text, or off (default: 3, " +
			"and more as the budget is used up, if the gateway can verify)"},
	{Name: "show-unverified", Needs: "cloud", Help: "show tokens before the large model has checked them"},

	// Observing.
	{Name: "explain", Help: "show how sure the small model was of each token, and what the large one was asked"},
	{Name: "stats", Unless: "json", Often: true, Help: "print times and counts below the answer"},
	{Name: "quiet", Short: "q", Excludes: "explain stats", Often: true, Help: "print only the answer, and errors"},
	{Name: "profile", Values: "cpu mem block mutex trace",
		Help: "`KIND[:FILE]` of a profile: cpu, mem, block, mutex or trace"},

	// Servers.
	{Name: "listen", Often: true, Help: "`address` to listen on; launch: of the server"},
	{Name: "print", Often: true, Help: "print the settings of the agent instead of starting it"},
	{Name: "open", Excludes: "api-key-file", Often: true,
		Help: "serve anyone who can reach the address, without a key or token"},
	{Name: "config", Files: "yaml yml", Env: true,
		Help: "YAML `file` with settings (default, but for cloud: pilotfish/config.yaml in the user's folder)"},
	{Name: "log", Choices: "text json off", Often: true, Help: "`format` of the log on stderr: text, json or off"},
	{Name: "log-level", Choices: "debug info warn error",
		Help: "minimum `level` of the log: debug (cloud: each question), info, warn or error"},
	{Name: "cert", With: "key", Often: true,
		Help: "certificate `file`, PEM (default: plain HTTP; cloud creates one on its first start)"},
	{Name: "key", With: "cert", Often: true, Help: "private key `file` of the certificate, PEM"},
	{Name: "parallel", Span: "1", Often: true, Help: "number of answers generated at the same time"},

	{Name: "limit",
		Help: "a limit or timeout; may be repeated: docs/use/serving.md and docs/operate/gateway.md list them"},

	// serve
	{Name: "alias", Often: true, Help: "additional `name` of the model in requests; may be repeated"},
	{Name: "api-key-file", Often: true,
		Help: "`file` with the API keys that clients may use, one per line (default: the " +
			"environment variable " + ApiKeyVariable + ")"},
	{Name: "cors-origin", Often: true,
		Help: "`origin` of web pages that may send requests, or * for any; may be repeated"},
	{Name: "limit.sessions", Span: "0", Help: "maximum number of texts kept in memory"},
	{Name: "kv-folder", Often: true,
		Help: "`folder` for the KV cache of texts that do not fit into memory, and of all " +
			"when the server ends"},
	{Name: "limit.kv-folder-bytes", Span: "1", Needs: "kv-folder",
		Help: "maximum size of the files in --kv-folder, in `bytes`"},
	{Name: "limit.request-timeout", Span: ">0s", Help: "maximum `time` for a request, including waiting"},

	// cloud
	{Name: "cloud.token-file", Often: true,
		Help: "`file` with the access tokens of devices (default: one is created on the first start)"},
	{Name: "slots", Span: "0", Often: true,
		Help: "size of the KV cache for all devices, in `tokens` (default: what fits into half of the free memory)"},
	{Name: "admin", Often: true, Help: "TCP `address` of the operators' pages /healthz, /readyz, /metrics and " +
		"/debug/pprof; without a host, on loopback; off: none"},
	{Name: "check-config", Help: "check flags, configuration and the files they name, without starting"},
	{Name: "ticket-key-file",
		Help: "`file` with keys for 0-RTT tickets, 32 bytes per line in hex, newest first"},
	{Name: "tokenizer",
		Help: "GGUF `file` with the vocabulary of the devices' model, which must be that of the engines"},
	{Name: "upstream", Often: true, Help: "`URL` of an inference engine that serves the model; may be repeated"},
	{Name: "engine", Help: "how the engines of --upstream are asked; may be repeated: docs/operate/engines.md"},
	{Name: "engine.key-file", Help: "`file` with the API key for the engines"},
	{Name: "engine.model", Help: "`name` of the model, if an engine serves several (default: its first)"},
	{Name: "limit.memory", Span: "1 1000000000",
		Help: "maximum number of `tokens` of all texts kept in memory, 12 bytes each"},
	{Name: "limit.devices", Span: "1 1000000000",
		Help: "maximum number of open connections, at most half of them of one IPv4 address or IPv6 /64"},
	{Name: "limit.rate", Span: "0.001 1000000000",
		Help: "maximum number of questions per second of a device; on an open gateway, of an address"},
	{Name: "limit.idle", Span: "1ms",
		Help: "time after which a silent connection is closed; an unused text is dropped after 30 times that"},
	{Name: "limit.total", Span: "1ms",
		Help: "maximum time for an answer, whatever deadline the device gives; a sixth of it when the gateway stops"},

	// Files, models and other small commands.
	{Name: "rtt", Span: "0s 10s", Help: "round-trip time to the large model, up to 10s"},
	{Name: "no-special", Help: "treat special tokens in the text as plain text"},
}

// ApiKeyVariable is the environment variable with the API key of clients.
const ApiKeyVariable = "PILOTFISH_API_KEY"
