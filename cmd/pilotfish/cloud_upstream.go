package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// upstreamFlags name the inference engines that serve the large model.
type upstreamFlags struct {
	o         engine.UpstreamOptions
	kind      string
	key       string
	tokenizer string
	set       *optionsFlag
}

// register adds the flags of a gateway that asks engines.
func (u *upstreamFlags) register(f *pflag.FlagSet) {
	u.registerAll(f)
	add(u.set.FlagSet, "engine.wait", &u.o.Patience, 2*time.Minute)
	add(u.set.FlagSet, "engine.hedge", &u.o.Hedge, 0)
	add(u.set.FlagSet, "engine.parallel", &u.o.Parallel, 0)
	add(u.set.FlagSet, "engine.audit-every", &u.o.AuditEvery, 8)
}

// registerAll adds the flags that say which engines there are.
func (u *upstreamFlags) registerAll(f *pflag.FlagSet) {
	add(f, "upstream", &u.o.URLs, nil)
	u.registerEngine(f)
}

// registerEngine adds the flags that one engine needs to be known.
func (u *upstreamFlags) registerEngine(f *pflag.FlagSet) {
	add(f, "tokenizer", &u.tokenizer, "")
	u.set = addOptions(f, "engine")
	add(u.set.FlagSet, "engine.kind", &u.kind, "auto")
	add(u.set.FlagSet, "engine.model", &u.o.Model, "")
	add(u.set.FlagSet, "engine.key-file", &u.key, "")
	add(u.set.FlagSet, "engine.trust-vocabulary", &u.o.TrustVocabulary, false)
}

func kindNames() string {
	var names []string
	for _, k := range engine.UpstreamKinds() {
		names = append(names, string(k))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// check reads the flags that can be known to be wrong before there is an engine, and the key.
func (u *upstreamFlags) check(set *pflag.FlagSet) error {
	given := u.set.Changed
	if !set.Changed("upstream") {
		for _, name := range []string{"tokenizer", "engine"} {
			if set.Changed(name) {
				return usagef("--%s is for engines: it needs --upstream URL", name)
			}
		}
		return nil
	}
	switch {
	case u.o.Patience < 0 || given("hedge") && u.o.Hedge <= 0:
		return usagef("--engine wait and --engine hedge must be above 0")
	case given("parallel") && (u.o.Parallel < 1 || u.o.Parallel > 4096):
		return usagef("--engine parallel=%d is out of range: give 1 to 4096", u.o.Parallel)
	case given("audit-every") && u.o.AuditEvery < 1:
		return usagef("--engine audit-every=%d: give 1 or more", u.o.AuditEvery)
	case u.o.Hedge > 0 && len(u.o.URLs) < 2:
		return usagef("--engine hedge needs a second --upstream to ask")
	}
	return u.checkEngine()
}

// checkEngine reads the flags that one engine needs to be known, and the key.
func (u *upstreamFlags) checkEngine() error {
	switch {
	case u.tokenizer == "":
		return usagef("an engine needs --tokenizer FILE: a GGUF file with the vocabulary of the devices' model")
	case !slices.Contains(engine.UpstreamKinds(), engine.UpstreamKind(u.kind)):
		return usagef("--engine kind=%.40q is not known: choose %s", u.kind, kindNames())
	}
	u.o.Kind = engine.UpstreamKind(u.kind)
	return u.readKey()
}

func (u *upstreamFlags) readKey() error {
	if !u.set.Changed("key-file") {
		return nil
	}
	if u.key == "" {
		return usagef("--engine key-file= names no file")
	}
	b, err := os.ReadFile(u.key)
	if err != nil {
		return fmt.Errorf("--engine key-file: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return fmt.Errorf("--engine key-file=%s: there must be one line with the key, and nothing else", u.key)
	}
	u.o.Key = netproto.Secret(key)
	return nil
}

// open asks the engines what they can do.
func (u *upstreamFlags) open(ctx context.Context, log *slog.Logger) (cloudModel, error) {
	u.o.Log = log
	up, err := engine.OpenUpstream(ctx, u.tokenizer, u.o)
	if err != nil {
		return nil, err
	}
	return &upstreamModel{up, u.tokenizer, log}, nil
}

// upstreamModel is a model that engines serve.
type upstreamModel struct {
	u         *engine.Upstream
	tokenizer string // file
	log       *slog.Logger
}

func (m *upstreamModel) gateway(o engine.GatewayOptions) (*engine.Gateway, error) {
	return m.u.Gateway(o)
}

func (m *upstreamModel) about() (lines []string) {
	for _, e := range m.u.Stats().Engines {
		name := e.URL
		if at, err := url.Parse(e.URL); err == nil {
			name = at.Host
		}
		if !e.In {
			lines = append(lines, fmt.Sprintf("engine %s is not there yet: %v", name, e.Why))
			continue
		}
		lines = append(lines, fmt.Sprintf("engine %s: %s %s serves %s, with contexts of %s tokens, %d probabilities, "+
			"audits: %s",
			name, e.Facts.Dialect, e.Facts.Version, e.Facts.Model, orUnknown(e.Facts.MaxContext), e.Facts.Choices,
			e.Facts.Audit))
		for _, note := range e.Facts.Notes {
			lines = append(lines, "  "+note)
		}
	}
	return lines
}

func orUnknown(n int) string {
	if n == 0 {
		return "an unknown number of"
	}
	return fmt.Sprint(n)
}

func (m *upstreamModel) attend() (stop func()) { return func() {} }

func (m *upstreamModel) metrics() prometheus.Collector { return newUpstreamMetrics(m.u.Stats) }

func (m *upstreamModel) ready() error { return m.u.Ready() }

func (m *upstreamModel) text() (func([]int32) string, error) {
	t, err := engine.ReadTokenizer(m.tokenizer)
	if err != nil {
		return nil, err
	}
	return t.Decode, nil
}

// close says what the engines have done.
func (m *upstreamModel) close() {
	m.u.Close()
	s := m.u.Stats()
	for _, e := range s.Engines {
		m.log.Info("asked", "engine", e.URL, "questions", e.Asks, "answered", e.Answered, "failed", e.Failed,
			"cancelled", e.Cancelled, "outages", e.Outages, "cached_tokens", e.Cached, "of_tokens", e.Context,
			"audited", e.Audited, "audit_tokens", e.AuditExtra, "evicted_sessions", e.Evicted)
	}
	m.log.Info("repeated", "questions", s.Repeats, "differing_answers", s.Differing)
}

// cloudModel is the large model behind a gateway.
type cloudModel interface {
	gateway(engine.GatewayOptions) (*engine.Gateway, error)
	about() []string       // lines for whoever started it
	attend() (stop func()) // what goes on while the gateway serves

	metrics() prometheus.Collector
	ready() error                            // why no question can be answered, if so; it waits for nothing
	text() (func(ids []int32) string, error) // how tokens are shown

	close() // when it does no more
}
