package tokenizer

// llama.cpp knows some tokens by their spelling, whatever type the file gives them. It makes them control tokens, so
// that they are cut out of a text when special tokens are parsed, and ends a generation at some of them. In the
// vocabulary of Qwen2 this concerns one ordinary token, </s>. The lists are those of src/llama-vocab.cpp of August 2026.

// endSpellings end a generation.
var endSpellings = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
	"<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
	"<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
}

// plainSpellings are user-defined tokens, even where the file calls them control tokens.
var plainSpellings = []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}

// fimRoles are the parts of a prompt to fill in the middle. The keys name the token, the last one that is there; else
// it is the first spelling that is there. (Of several spellings llama.cpp takes whichever its hash table has first; the
// vocabulary of Qwen2 has one of each.)
var fimRoles = []struct {
	keys      []string
	spellings []string
	ends      bool // a generation ends here
}{
	{[]string{"fim_pre_token_id", "prefix_token_id"}, []string{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
		"<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"}, false},
	{[]string{"fim_suf_token_id", "suffix_token_id"}, []string{"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
		"<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"}, false},
	{[]string{"fim_mid_token_id", "middle_token_id"}, []string{"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
		"<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"}, false},
	{[]string{"fim_pad_token_id"}, []string{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}, true},
	{[]string{"fim_rep_token_id"}, []string{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}, true},
	{[]string{"fim_sep_token_id"}, []string{"<|file_sep|>"}, true},
}

// endKeys name tokens that end a generation.
var endKeys = []string{"eos_token_id", "eot_token_id", "eom_token_id"}

// promote adds to the kinds of v what spellings and the special ids of the file (by key, without the prefix) say.
func promote(v *vocabulary, ids map[string]int32) {
	for _, role := range fimRoles {
		id := int32(-1)
		for _, key := range role.keys {
			if named, ok := ids[key]; ok {
				id = named
			}
		}
		for i := 0; id < 0 && i < len(role.spellings); i++ {
			if id = v.find([]byte(role.spellings[i])); id >= 0 {
				v.kinds[id] |= control
			}
		}
		if id >= 0 && role.ends {
			v.kinds[id] |= end
		}
	}
	for _, text := range endSpellings {
		if id := v.find([]byte(text)); id >= 0 {
			v.kinds[id] |= control | end
		}
	}
	for _, text := range plainSpellings {
		if id := v.find([]byte(text)); id >= 0 {
			v.kinds[id] = userDefined | v.kinds[id]&end
		}
	}
	for _, key := range endKeys {
		if id, ok := ids[key]; ok {
			v.kinds[id] |= end
		}
	}
}
