package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/event"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

const (
	noState    = "off"   // value of --budget-state: the balance is not stored
	maxBalance = 1 << 16 // maximum size of a file with a balance, in bytes
)

// storedBalance is the balance of a budget, with the file that stores it between runs.
type storedBalance struct {
	path          string // "": it is not stored
	before, after event.Balance
}

func newBalanceEvent(b *router.Balance, threshold float64) event.Balance {
	t := b.Total()
	return event.Balance{Total: t, Share: t.Share(), Threshold: threshold}
}

// openBalance starts a new balance if there is no folder for caches.
func openBalance(f *runFlags, p *routingPlan, m *pilotfish.Model) (*storedBalance, error) {
	k := &storedBalance{path: f.state}
	switch k.path {
	case noState:
		k.path = ""
	case "":
		cache, err := cli.CacheFolder()
		if err != nil {
			break
		}
		name, err := balanceFileName(f, p, m)
		if err != nil {
			return nil, err
		}
		k.path = filepath.Join(cache, "budget", name)
	}
	var err error
	p.options.Balance, err = k.readBalance(p.budget)
	return k, err
}

// balanceFileName returns the name of the file for a small model, a gateway, a policy with its router, and a budget. It
// uses the gateway's address, since the gateway's model is not known before the first question.
func balanceFileName(f *runFlags, p *routingPlan, m *pilotfish.Model) (string, error) {
	model, err := m.Fingerprint()
	if err != nil {
		return "", err
	}
	var net bytes.Buffer
	if p.options.Net != nil {
		if err := p.options.Net.Write(gguf.NewWriter(&net)); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %s %v %x", model, f.gateway.Address, p.options.Policy, p.budget,
		net.Bytes()))
	return hex.EncodeToString(sum[:16]) + ".json", nil
}

// readBalance returns a new balance if there is no file.
func (k *storedBalance) readBalance(budget float64) (*router.Balance, error) {
	b := new(router.Balance)
	if k.path == "" {
		return b, nil
	}
	text, err := cli.ReadSmall(k.path, maxBalance)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return nil, fmt.Errorf("--budget-state: %w", err)
	}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("%s is not the balance of a budget (%w): delete it to start a new balance, or "+
			"give another file with --budget-state", k.path, err)
	}
	if of := b.Total().Budget; of != budget {
		return nil, cli.Usagef("--budget-state %s belongs to a budget of %s: give --budget %v, or another file", k.path,
			group.Share(of), of)
	}
	return b, nil
}

// addAnswer adds an answer to the balance in the file, which may include answers of other runs meanwhile.
func (k *storedBalance) addAnswer(o router.Options, a router.Answer) error {
	b, err := k.readBalance(o.Bound())
	if err != nil {
		return err
	}
	o.Balance = b
	r, err := router.New(o)
	if err != nil {
		return err
	}
	r.Add(a)
	k.after = newBalanceEvent(b, r.Begin().Threshold())
	if k.path == "" {
		return nil
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return err
	}
	return cli.ReplaceFile(k.path, append(text, '\n'), 0o644)
}
