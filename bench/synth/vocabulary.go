package synth

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// specials are the control tokens, the last ones of the vocabulary.
var specials = [...]string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}

// template formats a chat in ChatML, with definitions, calls and results of tools.
const template = `{# a chat #}{% if tools %}{{ '<|im_start|>system\n<tools>' }}{% for tool in tools %}` +
	`{{ '\n' + tool | tojson }}{% endfor %}{{ '\n</tools><|im_end|>\n' }}{% endif %}{% for message in messages %}` +
	`{% if message.role == 'tool' %}{{ '<|im_start|>user\n<tool_response>\n' + message.content }}` +
	`{{ '\n</tool_response>' }}` +
	`{% else %}{{ '<|im_start|>' + message.role + '\n' + message.content }}{% endif %}` +
	`{% for call in message.tool_calls %}{{ '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}` +
	`{{ call.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// thinksEnd follows the template in a model that thinks.
const thinksEnd = `{% if enable_thinking is defined and not enable_thinking %}` +
	`{{ '<think>\n\n</think>\n\n' }}{% endif %}`

// marks are the tokens around a thought.
var marks = [...]string{"<think>", "</think>"}

// Types of tokens in tokenizer.ggml.token_type.
const (
	normal      = 1
	control     = 3
	userDefined = 4
)

// putVocabulary writes a byte-level BPE: the 256 bytes, random merges of earlier tokens, and the special tokens.
func (s Spec) putVocabulary(w *gguf.Writer) {
	tokens, merges := s.buildTokens()
	types := make([]int32, len(tokens), s.Vocab)
	for i := range types {
		types[i] = normal
	}
	template := template
	if s.Thinks { // in place of the last words, whose merges would have no token
		n := len(tokens) - len(marks)
		tokens, types = append(tokens[:n], marks[:]...), append(types[:n], userDefined, userDefined)
		merges, template = merges[:len(merges)-len(marks)], template+thinksEnd
	}
	first := uint32(len(tokens))
	for _, t := range specials {
		tokens, types = append(tokens, t), append(types, control)
	}
	gguf.Put(w, "tokenizer.ggml.model", "gpt2")
	pre := "qwen2"
	if s.arch() == "qwen35" {
		pre = "qwen35"
	}
	gguf.Put(w, "tokenizer.ggml.pre", pre)
	gguf.PutArray(w, "tokenizer.ggml.tokens", tokens)
	gguf.PutArray(w, "tokenizer.ggml.token_type", types)
	gguf.PutArray(w, "tokenizer.ggml.merges", merges)
	gguf.Put(w, "tokenizer.ggml.eos_token_id", first+2)
	gguf.Put(w, "tokenizer.ggml.bos_token_id", first)
	gguf.Put(w, "tokenizer.ggml.add_bos_token", false)
	gguf.Put(w, "tokenizer.chat_template", template)
}

// buildTokens returns the tokens except the special ones, and the merges that build all but the first 256 of them.
// Mostly letters are merged, so that words result.
func (s Spec) buildTokens() (tokens, merges []string) {
	const longest = 16 // maximum number of letters in a token
	tokens = byteLevelAlphabet()
	known := map[string]bool{}
	for _, t := range tokens {
		known[t] = true
	}
	var parts []string // candidates for merges: letters, and merged tokens
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		parts = append(parts, string(c))
	}
	parts = append(parts, space+"a", space+"s", space+"t")
	r := rand.New(rand.NewPCG(s.Seed, 1))
	add := func(left, right string) {
		if whole := left + right; !known[whole] && len(whole) <= longest && len(tokens) < s.Vocab-len(specials) {
			known[whole] = true
			tokens, merges = append(tokens, whole), append(merges, left+" "+right)
			parts = append(parts, whole)
		}
	}
	for _, c := range "ast" {
		add(space, string(c))
	}
	for len(tokens) < s.Vocab-len(specials) {
		left, right := parts[r.IntN(len(parts))], parts[r.IntN(len(parts))]
		if known[left] && known[right] && !strings.HasPrefix(right, space) {
			add(left, right)
		}
	}
	return tokens, merges
}

// space is the representation of a blank in the alphabet.
const space = "Ġ"

// byteLevelAlphabet returns the 256 characters that represent bytes in a byte-level BPE: printable characters of
// Latin-1 represent themselves, the others, in order, characters from U+0100 on (GPT-2).
func byteLevelAlphabet() []string {
	letters, next := make([]string, 256), rune(256)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' && b <= 'ÿ' {
			letters[b] = string(b)
		} else {
			letters[b] = fmt.Sprintf("%c", next)
			next++
		}
	}
	return letters
}
