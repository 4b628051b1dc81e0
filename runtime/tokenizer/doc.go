// Package tokenizer turns text into the ids of a Qwen2 vocabulary and back.
//
// The vocabulary comes wholly from a GGUF file (tokenizer.ggml.*): nothing about ids is built in. Encoding has four
// steps, one file each:
//
//	text ─ special tokens cut out (partition.go)
//	     ─ made well-formed UTF-8 (wellformed.go)
//	     ─ split into pieces, a word with its blank or the like (split.go, class.go)
//	     ─ each piece merged from its bytes up, lowest rank first (merge.go, mergelong.go, rules.go)
//
// The ids are those of llama.cpp for any text, valid UTF-8 or not, with and without special tokens; where the
// reference in Python differs (it normalises to NFC and knows a later Unicode), llama.cpp is followed.
package tokenizer
