package group

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/event"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// DefaultBudget is the share of tokens that the large model chooses where nothing else is said.
const DefaultBudget = 0.07

// NewCertificateEvent describes a certificate.
func NewCertificateEvent(c *router.Certificate) event.Certificate { return event.Certificate(*c) }

// CertificateText says what was proven, in one sentence.
func CertificateText(c *router.Certificate) string {
	return fmt.Sprintf("at most %s of the tokens from the cloud with confidence %s, shown on %d prompts "+
		"(%.2g%% of %d tokens; %.60s; at most %d tokens an answer): threshold %v",
		Share(c.Budget), Share(c.Confidence), c.Prompts, 100*c.Share, c.Tokens, Printable(c.Method), c.MaxTokens,
		c.Threshold)
}

// Share is a share in percent, without zeros at its end.
func Share(x float64) string { return fmt.Sprintf("%.4g%%", 100*x) }

// Printable is text of a file for a terminal.
func Printable(text string) string {
	q := fmt.Sprintf("%q", text)
	return q[1 : len(q)-1]
}

// PromptKind is how prompts are given, as certificates say it.
func PromptKind(raw bool) string {
	if raw {
		return router.Raw
	}
	return router.Chat
}

// Fitting refuses a router for a model of another width. path is its file; "" for the demo's.
func Fitting(file *router.File, e *engine.Engine, path string) error {
	r, err := router.New(router.Options{Policy: router.Learned, Net: file.Net})
	if err != nil {
		return err
	}
	if err := e.Fits(r); err != nil {
		return fmt.Errorf("--router %s: %w", path, err)
	}
	return nil
}

// WarnForeign says where a router was trained for another model of the same width.
func WarnForeign(a *cli.App, file *router.File, m interface{ Fingerprint() (string, error) }) {
	own, err := m.Fingerprint()
	if err == nil && file.About.Model != "" && file.About.Model != own {
		fmt.Fprintf(a.Stderr,
			"pilotfish: this router was trained for another model%s: what it says of this one may mean nothing\n",
			Named(file.About.ModelName))
	}
}

// Named is a name that follows a noun.
func Named(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%.60s)", Printable(name))
}

// PromptOf returns the ids of a text: as it stands, or as the question of a chat, behind other messages if there are
// some.
func PromptOf(e *engine.Engine, text string, raw bool, before ...tokenizer.Message) ([]int32, error) {
	if raw {
		return e.RawPrompt(text)
	}
	ids, err := e.Chat(append(before, tokenizer.Message{Role: "user", Content: text})...)
	if errors.Is(err, tokenizer.ErrUnsupported) {
		err = fmt.Errorf("%w; --raw goes on with a text instead", err)
	}
	return ids, err
}
