package main

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

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// liveStart is the live threshold before the first answer, where no certificate says a better one: low, so that the
// first answers ask for little.
const liveStart = 0.1

// mostLive is the longest file of a live threshold, in bytes.
const mostLive = 1 << 16

// liveState is a live threshold that is kept in a file from one run to the next.
type liveState struct {
	path          string
	before, after router.Live
}

// openLive returns the live threshold that the flags name.
func openLive(f *runFlags, p *plan, e *engine.Engine) (*liveState, error) {
	if !(p.budget < 1) {
		return nil, usagef("--budget %v with --budget-live: give a share below 1", p.budget)
	}
	s := &liveState{path: f.policy.liveState}
	if s.path == "" {
		var err error
		if s.path, err = livePath(p, e); err != nil {
			return nil, err
		}
	}
	start := liveStart
	if p.certificate != nil {
		start = p.certificate.Threshold
	}
	l, err := readLive(s.path, p.budget, start)
	if err != nil {
		return nil, err
	}
	s.before, s.after = *l, *l
	return s, nil
}

// livePath is the file of a router, a model and a budget in the user's cache folder.
func livePath(p *plan, e *engine.Engine) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("--budget-live: %w: name a file with --live-state", err)
	}
	model, err := e.Fingerprint()
	if err != nil {
		return "", err
	}
	var net bytes.Buffer
	if p.options.Net != nil {
		if err := p.options.Net.Write(gguf.NewWriter(&net)); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %v %x", model, p.options.Policy, p.budget, net.Bytes()))
	return filepath.Join(cache, "pilotfish", "live", hex.EncodeToString(sum[:16])+".json"), nil
}

// readLive returns the live threshold of a file, or a new one where there is no file.
func readLive(path string, budget, start float64) (*router.Live, error) {
	b, err := readSmall(path, mostLive)
	if errors.Is(err, fs.ErrNotExist) {
		return router.NewLive(budget, start), nil
	}
	if err != nil {
		return nil, fmt.Errorf("--budget-live: %w", err)
	}
	l := new(router.Live)
	if err = json.Unmarshal(b, l); err == nil {
		err = l.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s holds no live threshold (%w): delete it, and the next run begins anew", path, err)
	}
	if l.Budget != budget {
		return nil, usagef("--live-state %s follows a budget of %s: give --budget %v, or another file",
			path, share(l.Budget), l.Budget)
	}
	return l, nil
}

// update takes an answer into account, and keeps the state. What other runs have kept meanwhile counts too.
func (s *liveState) update(escalated, tokens int) error {
	l, err := readLive(s.path, s.before.Budget, s.before.Value)
	if err != nil {
		return err
	}
	l.Update(escalated, tokens)
	s.after = *l
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	return replaceFile(s.path, append(b, '\n'), 0o644)
}
