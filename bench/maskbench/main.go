// Command maskbench measures grammars of JSON schemas with the data of MaskBench: schemas, each with valid and invalid
// values (https://github.com/guidance-ai/jsonschemabench, folder maskbench/data).
//
// A schema passes if it can be compiled to a grammar, and if the grammar allows all tokens of each valid value and not
// all tokens of any invalid one. Values are written as MaskBench writes them: by Python's json.dumps, without
// unnecessary escapes.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/schema"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

func main() {
	os.Exit(runCommand(os.Args[1:], os.Stdout, os.Stderr))
}

// runCommand returns the exit code: 0 done, 1 failed, 2 wrong usage.
func runCommand(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("maskbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	model := flags.String("m", "", "GGUF file with the vocabulary; it needs no weights")
	sample := flags.Int("sample", 0, "how many schemas to take, drawn at random; 0: all")
	seed := flags.Uint64("seed", 1, "of the draw")
	verbose := flags.Bool("v", false, "name each schema that does not pass")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *model == "" || flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: maskbench -m MODEL.gguf [-sample N] [-seed N] [-v] FOLDER")
		return 2
	}
	if err := runBenchmark(stdout, *model, flags.Arg(0), *sample, *seed, *verbose); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func runBenchmark(out io.Writer, model, folder string, sample int, seed uint64, verbose bool) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("%s: no files *.json", folder), err)
	}
	if sample > 0 && sample < len(files) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		files = files[:sample]
	}
	f, err := gguf.Open(model)
	if err != nil {
		return err
	}
	defer f.Close()
	b := &benchmark{out: out, reasons: map[string]int{}, verbose: verbose, clock: newClock()}
	if b.tokens, err = tokenizer.FromGGUF(f); err != nil {
		return fmt.Errorf("%s: %w", model, err)
	}
	start := b.clock()
	if b.vocab, err = grammar.NewVocabulary(b.tokens.Size(), b.tokens.Bytes, b.tokens.IsEnd); err != nil {
		return fmt.Errorf("%s: %w", model, err)
	}
	took := (b.clock() - start).Round(time.Millisecond)
	fmt.Fprintf(out, "vocabulary        %d tokens, prepared in %v\n", b.tokens.Size(), took)
	for _, file := range files {
		if err := b.checkFile(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	b.printReport(out)
	return nil
}

type benchmark struct {
	out             io.Writer
	tokens          *tokenizer.Tokenizer
	vocab           *grammar.Vocabulary
	verbose         bool
	clock           func() time.Duration // processor time, if available
	schemas, passed int
	refused         int // schemas that were not compiled
	valid, accepted int // values, and those with all tokens allowed
	invalid, let    int
	reasons         map[string]int // why schemas did not pass, with counts
	masks, compiles []time.Duration
	largest         int // bytes of a grammar
	ignored         int // schemas with keywords that have no effect
}

// example is a valid or invalid value of a schema.
type example struct {
	Valid bool
	Data  json.RawMessage
}

func (b *benchmark) checkFile(name string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var of struct {
		Schema json.RawMessage
		Tests  []example
	}
	if err := json.Unmarshal(raw, &of); err != nil {
		return err
	}
	b.schemas++
	start := b.clock()
	g, err := schema.Compile(context.Background(), of.Schema, false)
	b.compiles = append(b.compiles, b.clock()-start)
	if err != nil {
		b.refused++
		b.recordFailure(name, "refused: "+generalReason(err), err.Error())
		return nil
	}
	if b.largest = max(b.largest, g.Bytes()); len(g.Ignored()) > 0 {
		b.ignored++
	}
	m, ok := grammar.NewMatcher(g, b.vocab), true
	for i, e := range of.Tests {
		text, err := dumpJSON(e.Data)
		if err != nil {
			return fmt.Errorf("test %d: %w", i, err)
		}
		if why := b.checkValue(m, e.Valid, text); why != "" && ok {
			ok = false
			b.recordFailure(name, why, fmt.Sprintf("test %d", i))
		}
	}
	if ok {
		b.passed++
	}
	return nil
}

func (b *benchmark) checkValue(m *grammar.Matcher, valid bool, text string) (wrong string) {
	s, at, over := m.Start(), 0, false
	var mask grammar.Mask
	for _, id := range b.tokens.Encode(text, false) {
		start := b.clock()
		mask = m.Mask(mask, s)
		if over = !mask.Has(id); !over {
			s = m.Next(s, id)
		}
		b.masks = append(b.masks, b.clock()-start)
		if over {
			break
		}
		at += len(b.tokens.Bytes(id))
	}
	whole := !over && s.Done()
	switch {
	case valid:
		if b.valid++; whole {
			b.accepted++
			return ""
		}
		if b.verbose {
			fmt.Fprintf(b.out, "  %s >>> %s\n", text[max(0, at-100):at], text[at:min(len(text), at+60)])
		}
		return "a valid value is refused"
	default:
		if b.invalid++; !whole {
			return ""
		}
		b.let++
		return "an invalid value is let through"
	}
}

func (b *benchmark) recordFailure(file, reason, detail string) {
	b.reasons[reason]++
	if b.verbose {
		fmt.Fprintf(b.out, "%s: %s: %s\n", filepath.Base(file), reason, detail)
	}
}

var (
	particular = regexp.MustCompile(`"[^"]*"|[0-9]+`)
	index      = regexp.MustCompile(`[0-9]+$`)
)

// generalReason returns the text of an error without the parts that are specific to a schema: the path up to the
// keyword, names and numbers.
func generalReason(err error) string {
	var e *grammar.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	return index.ReplaceAllString(filepath.Base(e.Path), "N") + ": " +
		particular.ReplaceAllString(e.Err.Error(), "…")
}

func (b *benchmark) printReport(w io.Writer) {
	fmt.Fprintf(w, "schemas           %d\n", b.schemas)
	fmt.Fprintf(w, "pass              %d (%.1f%%)\n", b.passed, 100*float64(b.passed)/float64(b.schemas))
	fmt.Fprintf(w, "refused           %d\n", b.refused)
	fmt.Fprintf(w, "with ignored keys %d\n", b.ignored)
	fmt.Fprintf(w, "largest grammar   %.1f MiB\n", float64(b.largest)/(1<<20))
	fmt.Fprintf(w, "valid values      %d, %d accepted\n", b.valid, b.accepted)
	fmt.Fprintf(w, "invalid values    %d, %d let through\n", b.invalid, b.let)
	printTimes(w, "masks", b.masks)
	printTimes(w, "compiling", b.compiles)
	fmt.Fprintln(w, "why schemas do not pass:")
	reasons := make([]string, 0, len(b.reasons))
	for r := range b.reasons {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(x, y string) int {
		return cmp.Or(cmp.Compare(b.reasons[y], b.reasons[x]), cmp.Compare(x, y))
	})
	for _, r := range reasons {
		fmt.Fprintf(w, "%7d  %s\n", b.reasons[r], r)
	}
}

func printTimes(w io.Writer, what string, all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	sum := time.Duration(0)
	for _, d := range all {
		sum += d
	}
	at := func(share float64) float64 { return all[int(share*float64(len(all)-1))].Seconds() * 1e3 }
	fmt.Fprintf(w, "%-17s %d; ms: mean %.4f, p50 %.4f, p90 %.4f, p99 %.3f, p99.9 %.3f, max %.1f\n", what, len(all),
		sum.Seconds()*1e3/float64(len(all)), at(.5), at(.9), at(.99), at(.999), at(1))
}
