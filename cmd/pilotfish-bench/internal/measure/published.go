package measure

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

// Questions for training routers, besides those of the demo.
const (
	csqaTrain  = "csqa-train"
	gsm8kTrain = "gsm8k-train"
	arcTrain   = "arc-train"
)

// Addresses of files, each at a fixed commit.
const (
	gsm8kFiles = "https://raw.githubusercontent.com/openai/grade-school-math/" +
		"3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/"
	// the files of the archive ARC-V1-Feb2018-2, one by one
	arcFiles = "https://raw.githubusercontent.com/pangr2/dataset_collection/" +
		"52d6686c0aef1a55241f3fc8f42345b1af9ce544/ARC-V1-Feb2018/ARC-V1-Feb2018-2/ARC-Challenge/"
	humanEvalFile = "https://raw.githubusercontent.com/openai/human-eval/" +
		"6d43fb980f9fee3c892a914eda09951f772ad10d/data/HumanEval.jsonl.gz"
	mbppFile = "https://raw.githubusercontent.com/google-research/google-research/" +
		"f82046ba5aabbbb427dbfd38a254d26bff08b533/mbpp/mbpp.jsonl"
)

// Published returns the sets of questions with known checksums of the official files.
func Published() map[string]hub.Address {
	mbpp := hub.Address{ // all parts
		URL: mbppFile, Name: "mbpp.jsonl", Size: 563_743,
		SHA256: "ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
	}
	return map[string]hub.Address{
		task.CSQA: {
			URL: "https://s3.amazonaws.com/commensenseqa/dev_rand_split.jsonl", Name: "csqa-dev.jsonl", Size: 471_653,
			SHA256: "3210497fdaae614ac085d9eb873dd7f4d49b6f965a93adadc803e1229fd8a02a",
		},
		csqaTrain: {
			URL: "https://s3.amazonaws.com/commensenseqa/train_rand_split.jsonl", Name: "csqa-train.jsonl",
			Size:   3_785_890,
			SHA256: "58ffa3c8472410e24b8c43f423d89c8a003d8284698a6ed7874355dedd09a2fb",
		},
		task.GSM8K: {
			URL: gsm8kFiles + "test.jsonl", Name: "gsm8k-test.jsonl", Size: 749_738,
			SHA256: "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
		},
		gsm8kTrain: {
			URL: gsm8kFiles + "train.jsonl", Name: "gsm8k-train.jsonl", Size: 4_166_206,
			SHA256: "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465",
		},
		task.ARC: {
			URL: arcFiles + "ARC-Challenge-Test.jsonl", Name: "arc-test.jsonl", Size: 492_726,
			SHA256: "9fa8ffb3e3a1f88cb302d53dd95aae81e39209ad9bcf974376b319d8fd35717c",
		},
		arcTrain: {
			URL: arcFiles + "ARC-Challenge-Train.jsonl", Name: "arc-train.jsonl", Size: 461_680,
			SHA256: "e02837c53ee86f6d73c259f91c77725c5062ef4531130b7f473a9d9b01118a77",
		},
		task.HumanEval: {
			URL: humanEvalFile, Name: "HumanEval.jsonl.gz", Size: 44_877,
			SHA256: "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
		},
		task.MBPP: mbpp, task.MBPPTrain: mbpp,
	}
}

// DataDir returns the default folder of questions.
func DataDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for questions: %w; name their file with --data", err)
	}
	return filepath.Join(cache, "pilotfish", "data"), nil
}
