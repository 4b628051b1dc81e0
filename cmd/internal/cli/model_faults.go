package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/spf13/cobra"
)

func addModelHint(c *cobra.Command, err error) error {
	missing, ok := errors.AsType[*fs.PathError](err)
	ok = ok && errors.Is(missing, fs.ErrNotExist)
	for _, name := range []string{"model", "large", "tokenizer"} {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed || err == nil {
			continue
		}
		path, hint := flag.Value.String(), ""
		switch {
		case ok && missing.Path == path:
			hint = missingModelHint(path)
		case !ok && strings.Contains(err.Error(), path+": "):
			hint = wrongModelHint(path, err)
		}
		if hint != "" {
			return fmt.Errorf("--%s: %w: %s", name, err, hint)
		}
	}
	return err
}

// pullExample is a command that fetches a model that runs everywhere.
const pullExample = `"pilotfish pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0"`

func missingModelHint(path string) string {
	if regexp.MustCompile(`^[a-z0-9._-]+:[a-z0-9._-]+$`).MatchString(path) {
		return "names of models are OWNER/NAME:QUANT, as on the Hugging Face hub: " + pullExample + " fetches one"
	}
	return `give the path of a GGUF file, or the name of a downloaded model ("pilotfish list" shows them); ` +
		pullExample + " fetches one"
}

// wrongModelHint returns what a file is instead of a model, and what to do; "" if that is not known.
func wrongModelHint(path string, err error) string {
	if info, failed := os.Stat(path); failed == nil && info.IsDir() {
		if all, _ := filepath.Glob(filepath.Join(path, "*.gguf")); len(all) > 0 {
			return "it is a folder: name a file in it, such as " + all[0]
		}
		return "it is a folder without GGUF files: " + pullExample + " fetches one"
	}
	switch begin := readFirstBytes(path); {
	case !errors.Is(err, gguf.ErrMagic):
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gguf.ErrTooLong) {
			return "the file is cut short or damaged: fetch it again; \"pilotfish pull\" checks that it is whole"
		}
		return ""
	case bytes.HasPrefix(begin, []byte("version https://git-lfs")):
		return "it is a pointer of Git LFS: \"git lfs pull\" in its folder fetches the file"
	case bytes.HasPrefix(bytes.TrimSpace(begin), []byte("<")):
		return "it is a web page: fetch the file itself, as " + pullExample + " does"
	case len(begin) > 8 && begin[8] == '{', strings.HasSuffix(path, ".safetensors"):
		return "it is in the format safetensors: fetch the same model as GGUF, as " + pullExample + " does"
	}
	return "fetch a GGUF file, as " + pullExample + " does"
}

func readFirstBytes(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	begin := make([]byte, 64)
	n, _ := io.ReadFull(f, begin) // shorter files, too
	return begin[:n]
}
