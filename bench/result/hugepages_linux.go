package result

import (
	"os"
	"strings"
)

// hugePages returns the active setting of the kernel for transparent huge pages: the word in brackets.
func hugePages() string {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}
