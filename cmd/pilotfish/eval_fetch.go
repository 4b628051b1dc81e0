package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

// csqaTrain are the questions of CommonsenseQA that routers may learn from.
const csqaTrain = "csqa-train"

// published are the sets of questions whose official files are known to the last bit.
func published() map[string]hub.Address {
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
			URL: "https://raw.githubusercontent.com/openai/grade-school-math/" +
				"3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/test.jsonl",
			Name: "gsm8k-test.jsonl", Size: 749_738,
			SHA256: "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
		},
	}
}

// newEvalFetchCommand fetches a set of questions.
func newEvalFetchCommand(a *app) *cobra.Command {
	var dir, from string
	c := &cobra.Command{
		Use:   "fetch csqa|csqa-train|gsm8k [flags]",
		Short: "Download the questions of a benchmark from their official address",
		Long: `Download the questions of a benchmark from their official address and print the path of the file:

  csqa        CommonsenseQA, development split (Talmor, Herzig, Lourie and Berant, NAACL 2019)
  csqa-train  its training split, 9,741 questions, for training and calibrating routers
  gsm8k       GSM8K, test split (Cobbe et al., arXiv 2110.14168)

The SHA-256 of each file is built into this program: any other file is rejected and deleted. An interrupted download is
resumed.`,
		Example: "  pilotfish eval fetch csqa",
		Args:    oneArg("the name of a data set, such as csqa"),
		RunE: func(c *cobra.Command, args []string) error {
			set, known := published()[args[0]]
			if !known {
				names := strings.Join(slices.Sorted(maps.Keys(published())), ", ")
				return usagef("%.40q cannot be fetched: name %s; for others give their file with --data", args[0],
					names)
			}
			if c.Flags().Changed("from") {
				set.URL = from
			}
			if c.Flags().Changed("dir") && dir == "" {
				return usagef("--dir names no folder: give one, or leave it out")
			}
			return a.fetchQuestions(c.Context(), set, dir)
		},
	}
	c.Flags().StringVar(&dir, "dir", "",
		"folder `DIR` for the file (default: pilotfish/data in the user's cache folder, "+
			"where eval finds it)")
	c.Flags().StringVar(&from, "from", "", "alternative `address` of the same file, if the official one is unreachable")
	return c
}

// fetchQuestions fetches a file and prints where it is.
func (a *app) fetchQuestions(ctx context.Context, set hub.Address, dir string) (err error) {
	if dir == "" {
		if dir, err = dataDir(); err != nil {
			return err
		}
	}
	m := newMeter(a.stderr, set.Name, inBytes)
	f, err := hub.Fetch(ctx, set, hub.Options{Dir: dir, Progress: m.show, Notice: m.say})
	m.close()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, f.Path)
	return err
}

// dataDir is where questions go when no folder is named.
func dataDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for questions: %w; name one with --dir, and their file with --data", err)
	}
	return filepath.Join(cache, "pilotfish", "data"), nil
}
