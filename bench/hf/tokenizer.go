package main

import "strconv"

// splitting is the regular expression of Qwen2: merges apply within each of its matches.
const splitting = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
	`\s*[\r\n]+|\s+(?!\S)|\s+`

// added is a token that is recognised in a text before the text is split.
type added struct {
	ID           int    `json:"id"`
	Content      string `json:"content"`
	SingleWord   bool   `json:"single_word"`
	LeftStrip    bool   `json:"lstrip"`
	RightStrip   bool   `json:"rstrip"`
	IsNormalized bool   `json:"normalized"`
	Special      bool   `json:"special"`
}

// object is a JSON object. Its keys are written in sorted order.
type object map[string]any

// newTokenizer makes tokenizer.json, in the format of the library tokenizers. Text is normalised to NFC, as in the file
// of Qwen2; engines that read GGUF do not do that.
func newTokenizer(v vocabulary) object {
	bytes := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	split := object{"type": "Split", "pattern": object{"Regex": splitting}, "behavior": "Isolated", "invert": false}
	return object{
		"version": "1.0", "truncation": nil, "padding": nil,
		"added_tokens":   v.specials,
		"normalizer":     object{"type": "NFC"},
		"pre_tokenizer":  object{"type": "Sequence", "pretokenizers": []object{split, bytes}},
		"post_processor": bytes,
		"decoder":        bytes,
		"model": object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "", "end_of_word_suffix": "",
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": v.words, "merges": v.merges,
		},
	}
}

// newTokenizerConfig makes tokenizer_config.json for a model with the given size of context.
func newTokenizerConfig(v vocabulary, context int) object {
	decoder := object{}
	for _, s := range v.specials {
		decoder[strconv.Itoa(s.ID)] = object{
			"content": s.Content, "special": s.Special,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		}
	}
	c := object{
		"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": decoder, "add_prefix_space": false,
		"clean_up_tokenization_spaces": false, "model_max_length": context, "bos_token": nil, "unk_token": nil,
	}
	if v.eos != nil {
		c["eos_token"] = v.tokens[*v.eos]
		c["pad_token"] = v.tokens[*v.eos]
	}
	if v.template != "" {
		c["chat_template"] = v.template
	}
	return c
}
