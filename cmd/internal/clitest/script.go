package clitest

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

// UnderTest is the program under test.
var UnderTest cli.Program

// Main is TestMain of a package with tests of a program, or of some of its commands. Tests call them in their own
// process, or run the program, which is the test binary under its name.
func Main(m *testing.M, p cli.Program) {
	UnderTest = p
	testscript.Main(m, map[string]func(){p.Name: func() {
		commands := p.Commands
		p.Commands = func(a *cli.App) []*cobra.Command {
			a.Bandwidth, a.Patience = fakeBandwidth, time.Minute // no test judges by how soon a busy machine connects
			return commands(a)
		}
		cli.Main(p)
	}})
}

// fakeBandwidth replaces the measurement of the memory's bandwidth, which takes a second of both cores. TestBandwidth
// measures it.
func fakeBandwidth() float64 { return 12.5 }

// Scripts runs testdata/script/*.txtar of the package: scripts of github.com/rogpeppe/go-internal/testscript, in which
// "pilotfish run …" runs the program under test as a user does. Its configuration and cache are in the script's folder,
// and no address outside this machine is used. UPDATE_SCRIPTS=1 writes the compared files of failing scripts anew.
//
// $SMALL, $LARGE and $ROUTER are the files of the demo's pair. Additional commands:
//
//	exits CODE pilotfish ARGS...   runs the program, which must end with the exit code
//	start cloud|serve ARGS...      starts a gateway or server in the background: $CLOUD and $PIN, or $URL
//	ends cloud|serve               ends it with SIGTERM; it must end with 0, and with "! ends" with another code
//	gateway FILE                   serves a model within the test, where there is no command for it: $CLOUD and $PIN
//	hangup cloud                   sends it SIGHUP
//	says cloud|serve PATTERN       waits until its stderr, the file cloud.log or serve.log, matches; $SAID is the
//	                               first group of PATTERN
//	engine DIALECT FILE [KEY]      serves the vocabulary of a model with a fake engine at $ENGINE
//	[!] http METHOD URL [FILE]     sends a request, and writes the answer to stdout and its status to stderr
//	tiny FILE [KIND [SEED]]        writes a tiny random model, of type q8_0 and with seed 1 by default
func Scripts(t *testing.T) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), Setup: setupScript, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exitsCommand, "start": startCommand, "ends": endsCommand, "hangup": hangupCommand,
			"gateway": gatewayCommand, "says": saysCommand, "http": httpCommand, "tiny": tinyCommand,
			"engine": engineCommand,
		},
	})
}

// runningPrograms are the programs that a script has in the background, by command: its value with the key of
// runningKey.
type runningPrograms map[string]*exec.Cmd

const runningKey = "running"

func setupScript(e *testscript.Env) error {
	e.Values[runningKey] = runningPrograms{}
	for _, name := range []string{"HOME", "AppData", "LocalAppData"} {
		e.Setenv(name, filepath.Join(e.WorkDir, ".home"))
	}
	for _, name := range []string{"MUTANT", "MUTANTS_REACHED", "SystemRoot"} {
		if value, set := os.LookupEnv(name); set {
			e.Setenv(name, value)
		}
	}
	e.Setenv("HF_ENDPOINT", "http://"+ClosedPort)
	for _, name := range []string{"small", "large", "router"} {
		e.Setenv(strings.ToUpper(name), DemoFile(name+".gguf"))
	}
	return nil
}

// requireUsage ends a script that uses a command wrongly.
func requireUsage(ts *testscript.TestScript, right bool, usage string) {
	if !right {
		ts.Fatalf("usage: %s", usage)
	}
}

func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, !neg && len(args) > 1, "exits CODE PROGRAM [ARGS...]")
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("the exit code is %d", code)
	}
}

func startCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, !neg && len(args) > 0 && (args[0] == "cloud" || args[0] == "serve"), "start cloud|serve [ARGS...]")
	name := args[0]
	c := exec.Command("pilotfish", append([]string{name, "--listen", "127.0.0.1:0"}, args[1:]...)...)
	c.Dir = ts.MkAbs(".")
	for _, v := range append(os.Environ(), "HOME", "AppData", "LocalAppData", "PILOTFISH_TOKEN", "PILOTFISH_API_KEY") {
		name, _, _ := strings.Cut(v, "=")
		if value := ts.Getenv(name); value != "" { // a script does not list its variables
			c.Env = append(c.Env, name+"="+value)
		}
	}
	errs, err := os.Create(ts.MkAbs(name + ".log"))
	ts.Check(err)
	defer errs.Close()
	c.Stderr = errs
	out, err := c.StdoutPipe()
	ts.Check(err)
	ts.Check(c.Start())
	all := ts.Value(runningKey).(runningPrograms)
	all[name] = c
	ts.Defer(func() {
		if all[name] == c {
			c.Process.Kill()
			c.Wait()
		}
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		ts.Fatalf("pilotfish %s did not start: %s", name, ts.ReadFile(name+".log"))
	}
	said = strings.TrimSpace(said)
	if name == "serve" {
		ts.Setenv("URL", strings.TrimSuffix(said, "/v1"))
		return
	}
	_, listening, _ := strings.Cut(ts.ReadFile("cloud.log"), "listening on ")
	address, _, _ := strings.Cut(listening, ",")
	ts.Setenv("CLOUD", address)
	ts.Setenv("PIN", said)
}

func endsCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, len(args) == 1, "[!] ends cloud|serve")
	all := ts.Value(runningKey).(runningPrograms)
	c := all[args[0]]
	requireUsage(ts, c != nil, "start "+args[0]+" comes first")
	delete(all, args[0])
	ts.Check(c.Process.Signal(syscall.SIGTERM))
	if err := c.Wait(); (err != nil) != neg {
		ts.Fatalf("pilotfish %s: %v: %s", args[0], err, ts.ReadFile(args[0]+".log"))
	}
}

func hangupCommand(ts *testscript.TestScript, neg bool, args []string) {
	c := ts.Value(runningKey).(runningPrograms)["cloud"]
	requireUsage(ts, !neg && len(args) == 1 && args[0] == "cloud" && c != nil, "start cloud ...; hangup cloud")
	ts.Check(c.Process.Signal(syscall.SIGHUP))
}

func engineCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, !neg && (len(args) == 2 || len(args) == 3), "engine DIALECT FILE [KEY]")
	e := &fakeengine.Engine{Dialect: args[0], Key: strings.Join(args[2:], "")}
	server, err := newEngineServer(ts.MkAbs(args[1]), e)
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv("ENGINE", server.URL)
}

func saysCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, !neg && len(args) == 2, "says cloud|serve PATTERN")
	line, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	for range 6000 {
		if found := line.FindStringSubmatch(ts.ReadFile(args[0] + ".log")); found != nil {
			ts.Setenv("SAID", strings.Join(found[1:], ""))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("pilotfish %s has not said that in a minute: %s", args[0], ts.ReadFile(args[0]+".log"))
}

func httpCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, len(args) == 2 || len(args) == 3, "[!] http METHOD URL [FILE]")
	var body io.Reader
	if len(args) == 3 {
		body = strings.NewReader(ts.ReadFile(args[2]))
	}
	r, err := http.NewRequest(args[0], args[1], body)
	ts.Check(err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key := ts.Getenv("KEY"); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer response.Body.Close()
	_, err = io.Copy(ts.Stdout(), response.Body)
	ts.Check(err)
	io.WriteString(ts.Stderr(), response.Status+"\n")
	if (response.StatusCode >= 400) != neg {
		ts.Fatalf("status %s", response.Status)
	}
}

func tinyCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, !neg && len(args) >= 1 && len(args) <= 3, "tiny FILE [KIND [SEED]]")
	kind, seed := "q8_0", uint64(1)
	if len(args) > 1 {
		kind = args[1]
	}
	if len(args) > 2 {
		var err error
		seed, err = strconv.ParseUint(args[2], 10, 64)
		ts.Check(err)
	}
	ts.Check(writeTinyModel(ts.MkAbs(args[0]), kind, seed, false))
}
