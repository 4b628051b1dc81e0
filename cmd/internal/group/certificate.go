package group

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// CertificateText describes in one sentence what a certificate proves.
func CertificateText(c *router.Certificate) string {
	return fmt.Sprintf("at most %s of the tokens from the cloud with confidence %s, shown on %d prompts "+
		"(%.2g%% of %d tokens; %.60s; at most %d tokens an answer): policy %s",
		Share(c.Budget), Share(c.Confidence), c.Prompts, 100*c.Share, c.Tokens, Printable(c.Method), c.MaxTokens,
		PolicyText(c.Policy, c.Threshold))
}

// PolicyText describes a policy at a threshold.
func PolicyText(p router.Policy, threshold float64) string {
	switch p {
	case router.Never:
		return "never, the small model alone"
	case router.Judged:
		return fmt.Sprintf("judge, a token stands from probability %v on", threshold)
	case router.Verify:
		return fmt.Sprintf("verify, margin %.4g nats", max(0, -math.Log(threshold)))
	}
	return fmt.Sprintf("%s, threshold %v", p, threshold)
}

// Share formats a share in percent, without trailing zeros.
func Share(x float64) string { return fmt.Sprintf("%.4g%%", 100*x) }

// Printable makes text from a file safe for a terminal.
func Printable(text string) string {
	q := fmt.Sprintf("%q", text)
	return q[1 : len(q)-1]
}

// PromptKind returns the kind of prompts in certificates: raw or chat.
func PromptKind(raw bool) string {
	if raw {
		return router.Raw
	}
	return router.Chat
}

// Fitting returns an error if a router is for a model of another width, and prints a warning if it was trained for
// another model of the same width. path is its file; "" for the demo's.
func Fitting(a *cli.App, file *router.File, e *engine.Engine, path string) error {
	if file.Net == nil {
		return nil
	}
	r, err := router.New(router.Options{Policy: router.Learned, Net: file.Net})
	if err != nil {
		return err
	}
	if err := e.Fits(r); err != nil {
		return fmt.Errorf("--router %s: %w", path, err)
	}
	WarnForeign(a, "router", file.About, e)
	return nil
}

// WarnForeign prints a warning if a router or a judge was trained for another model of the same width.
func WarnForeign(a *cli.App, what string, about router.About, m interface{ Fingerprint() (string, error) }) {
	own, err := m.Fingerprint()
	if err == nil && about.Model != "" && about.Model != own {
		fmt.Fprintf(a.Stderr,
			"pilotfish: this %s was trained for another model%s: what it says of this one may mean nothing\n",
			what, Named(about.ModelName))
	}
}

// Named formats a name that follows a noun.
func Named(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%.60s)", Printable(name))
}

// PromptOf returns the ids of a text: unchanged, or as the question of a chat.
func PromptOf(e *engine.Engine, text string, raw bool) ([]int32, error) {
	if raw {
		return e.RawPrompt(text)
	}
	ids, err := e.Chat(tokenizer.Message{Role: "user", Content: text})
	if errors.Is(err, tokenizer.ErrUnsupported) {
		err = fmt.Errorf("%w; use --raw to continue a text instead", err)
	}
	return ids, err
}
