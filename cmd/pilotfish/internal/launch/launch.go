// Package launch implements pilotfish launch: agents that use a server of this program.
package launch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// defaultAddress is the address of a server without --listen.
const defaultAddress = "127.0.0.1:8080"

// launchFlags has the flags of `pilotfish launch`.
type launchFlags struct {
	model  string
	listen string // address of the server, or URL
	print  bool
}

// NewCommand returns the command that starts an agent.
func NewCommand(a *cli.App) *cobra.Command {
	var f launchFlags
	var names []string
	for _, one := range knownAgents() {
		names = append(names, one.name)
	}
	c := &cobra.Command{
		Use:   "launch NAME [flags] [-- ARGUMENTS]",
		Short: "Start an agent that uses a model of this device",
		Long: `Start an agent that uses the model of a running server (pilotfish serve), or with -m of one that ends
with the agent: ` + strings.Join(names, ", ") + `.

The agent gets its settings in its environment and in arguments, for this time only: no file is written, and what
follows -- comes last and counts. --print prints these settings; for programs that are set up in a file or a window,
that is all that launch does. The server's API key, if it needs one, is taken from PILOTFISH_API_KEY.`,
		Example: `  pilotfish launch claude -m qwen2.5-coder-1.5b-instruct-q4_k_m.gguf
  pilotfish launch codex -- exec "add a test for parse"
  pilotfish launch zed --print`,
		Args:      cobra.ArbitraryArgs,
		ValidArgs: names,
		RunE:      func(c *cobra.Command, args []string) error { return f.launchAgent(c.Context(), a, args) },
	}
	p := c.Flags()
	cli.Add(p, "model", &f.model, "")
	cli.Add(p, "listen", &f.listen, "")
	p.Lookup("listen").DefValue = defaultAddress + ", or with -m any port"
	cli.Add(p, "print", &f.print, false)
	return c
}

func (f *launchFlags) launchAgent(ctx context.Context, a *cli.App, args []string) error {
	one, err := findAgent(args)
	if err != nil {
		return err
	}
	url := cmp.Or(f.listen, defaultAddress)
	if f.model != "" {
		var stop func()
		if url, stop, err = f.startServer(ctx, a); err != nil {
			return err
		}
		defer stop()
	}
	s, err := queryServer(ctx, url, a.Env("PILOTFISH_API_KEY"))
	if err != nil {
		return err
	}
	if f.print || one.command == "" {
		s.printSettings(a.Stdout, one, args[1:])
		return nil
	}
	return s.runAgent(ctx, a, one, args[1:])
}

func findAgent(args []string) (agent, error) {
	all := knownAgents()
	var names []string
	for _, one := range all {
		if names = append(names, one.name); len(args) > 0 && one.name == args[0] {
			return one, nil
		}
	}
	return agent{}, cli.Usagef("give the name of an agent: %s", strings.Join(names, ", "))
}

// startServer starts a server in this process, and returns its base URL once it accepts requests.
func (f *launchFlags) startServer(ctx context.Context, a *cli.App) (url string, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // Ctrl-C is for the agent
	in, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		defer out.Close()
		app := cli.New(a.Program, strings.NewReader(""), out, a.Stderr)
		app.Env = a.Env
		ended <- app.Run(ctx, []string{"serve", "-m", f.model, "--listen",
			cmp.Or(f.listen, "127.0.0.1:0"), "--log", "off"})
	}()
	stop = func() {
		cancel()
		<-ended
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the server did not start")
	}
	return strings.TrimSpace(line), stop, nil
}

// server is what an agent needs to know of a server.
type server struct {
	url, model, context, key string
}

func queryServer(ctx context.Context, url, key string) (*server, error) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if url = strings.TrimSuffix(strings.TrimSuffix(url, "/"), "/v1") + "/v1"; !strings.Contains(url, "://") {
		url = "http://" + url
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/models", nil)
	if err != nil {
		return nil, cli.Usagef("--listen: %v", err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no server answers (%w): start pilotfish serve, give the address of another "+
			"one with --listen, or a model with -m", err)
	}
	defer w.Body.Close()
	if w.StatusCode == http.StatusUnauthorized {
		return nil, fmt.Errorf("%s needs an API key: set PILOTFISH_API_KEY", url)
	}
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			Context int    `json:"context_length"`
		} `json:"data"`
	}
	const most = 1 << 20
	if err := json.NewDecoder(io.LimitReader(w.Body, most)).Decode(&list); err != nil || len(list.Data) == 0 {
		return nil, fmt.Errorf("%s/models lists no model: is it a server of pilotfish serve?", url)
	}
	if key == "" {
		key = "none" // agents need one
	}
	return &server{url, list.Data[0].ID, strconv.Itoa(list.Data[0].Context), key}, nil
}

func (s *server) printSettings(w io.Writer, one agent, args []string) {
	shown := *s
	if s.key != "none" {
		shown.key = "$PILOTFISH_API_KEY"
	}
	if one.command == "" {
		fmt.Fprintf(w, "%s:\n\n%s", one.file, shown.fillTemplate(one.text))
		return
	}
	for _, e := range one.env {
		name, value, _ := strings.Cut(shown.fillTemplate(e), "=")
		fmt.Fprintf(w, "%s=%s \\\n", name, quoteShellWord(value))
	}
	fmt.Fprint(w, one.command)
	for _, arg := range slices.Concat(one.args, args) {
		fmt.Fprint(w, " ", quoteShellWord(shown.fillTemplate(arg)))
	}
	fmt.Fprintln(w)
}

// quoteShellWord returns a word for a shell. The name of the variable with the key stays one.
func quoteShellWord(word string) string {
	const plain = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz$_-./:=,@%+"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	word = strings.ReplaceAll(word, "'", `'\''`)
	return "'" + strings.ReplaceAll(word, "$PILOTFISH_API_KEY", `'"$PILOTFISH_API_KEY"'`) + "'"
}

func (s *server) runAgent(ctx context.Context, a *cli.App, one agent, args []string) error {
	path, err := exec.LookPath(one.command)
	if err != nil {
		return fmt.Errorf("%s is not installed: %s", one.command, one.get)
	}
	var own []string
	for _, arg := range one.args {
		own = append(own, s.fillTemplate(arg))
	}
	c := exec.CommandContext(ctx, path, append(own, args...)...)
	c.Cancel = func() error {
		if err := c.Process.Signal(syscall.SIGTERM); err == nil {
			return nil
		}
		return c.Process.Kill() // on Windows
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = os.Environ()
	for _, e := range one.env {
		c.Env = append(c.Env, s.fillTemplate(e))
	}
	defer cli.TakeInterrupts(ctx, func() {})() // the agent gets it as well, and decides
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", one.command, err)
	}
	return nil
}
