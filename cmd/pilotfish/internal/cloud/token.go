package cloud

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// accessFlags has the flags that select the devices that a gateway serves.
type accessFlags struct {
	file  string
	given bool // --token-file was given
	open  bool

	dry bool // nothing is created: no token, certificate or ticket key
}

// accessPolicy describes who may use a gateway.
type accessPolicy struct {
	tokens []engine.GatewayToken
	made   bool   // the token is new, so that the operator does not know it yet
	say    string // where the token is, or why there is none
}

// decideAccess decides who may use a gateway that listens at an address: devices with a token of the token file
// or the environment; all devices with --open or on loopback; otherwise devices with the token that
// is created on the first start and stored at path.
func (f accessFlags) decideAccess(listen net.Addr, path string) (accessPolicy, error) {
	variable, set := os.LookupEnv(cli.TokenVariable)
	switch {
	case f.open && (f.given || set):
		return accessPolicy{},
			cli.Usagef("--open serves all devices: leave out --open, or the tokens of --token-file and PILOTFISH_TOKEN")
	case f.open:
		return accessPolicy{say: "open to every device that can reach it (--open)"}, nil
	case f.given:
		tokens, err := readTokenFile(f.file)
		return accessPolicy{tokens: tokens, say: fmt.Sprintf("for devices with an access token of %s", f.file)}, err
	case set:
		secret := strings.TrimSpace(variable)
		if len(secret) < minToken {
			return accessPolicy{}, fmt.Errorf("PILOTFISH_TOKEN has %d bytes: give at least %d, or unset it",
				len(secret), minToken)
		}
		tokens := []engine.GatewayToken{{Name: "device", Secret: netproto.Secret(secret)}}
		return accessPolicy{tokens: tokens, say: "for devices with the access token of PILOTFISH_TOKEN"}, nil
	case isLoopbackAddr(listen):
		return accessPolicy{say: "open to programs on this machine, as it listens on loopback only"}, nil
	}
	return f.ensureToken(path)
}

func isLoopbackAddr(a net.Addr) bool {
	udp, ok := a.(*net.UDPAddr)
	return ok && udp.IP.IsLoopback()
}

func (f accessFlags) ensureToken(path string) (accessPolicy, error) {
	if path == "" {
		return accessPolicy{}, errors.New("the access token cannot be stored: there is no folder for configuration: " +
			"name a file with --token-file, or serve without one by --open")
	}
	tokens, err := readTokenFile(path)
	if f.dry && errors.Is(err, fs.ErrNotExist) {
		return accessPolicy{say: "for devices with the access token that is made on the first start"}, nil
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return accessPolicy{tokens: tokens, say: fmt.Sprintf("for devices with the access token in %s", path)}, err
	}
	var b [24]byte
	_, _ = rand.Read(b[:]) // always returns nil
	secret := base64.RawURLEncoding.EncodeToString(b[:])
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return accessPolicy{}, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return accessPolicy{}, err
	}
	_, err = file.WriteString(secret + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return accessPolicy{}, errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	token := engine.GatewayToken{Name: "device", Secret: netproto.Secret(secret)}
	say := fmt.Sprintf("for devices with the access token that was made just now and is in %s", path)
	return accessPolicy{tokens: []engine.GatewayToken{token}, made: true, say: say}, nil
}

func readTokenFile(path string) (tokens []engine.GatewayToken, err error) {
	what := fmt.Sprintf("access token of at least %d bytes", minToken)
	err = cli.SecretLines("--token-file", path, what, func(n int, line string) error {
		t, err := parseToken(line, fmt.Sprintf("line %d", n))
		tokens = append(tokens, t)
		return err
	})
	return tokens, err
}

// minToken is the minimum length of an access token, in bytes.
const minToken = 16

// parseToken parses NAME:SECRET with optional limits (rate=N devices=N weight=N private share), or a secret alone.
// Errors do not contain the text, which may be a secret.
func parseToken(line, name string) (t engine.GatewayToken, err error) {
	secret, limits := line, []string(nil)
	if named := namedToken.FindStringSubmatch(line); named != nil {
		name, secret, limits = named[1], named[2], strings.Fields(named[3])
	}
	t.Name, t.Secret = name, netproto.Secret(secret)
	if len(secret) < minToken {
		return t, fmt.Errorf("the access token has %d bytes: give at least %d", len(secret), minToken)
	}
	for i, field := range limits {
		if err := parseTokenLimit(&t, field); err != nil {
			return t, fmt.Errorf("limit %d of %q: %w", i+1, name, err)
		}
	}
	return t, nil
}

// namedToken matches NAME:SECRET and the limits after it.
var namedToken = regexp.MustCompile(`^([\w.-]+):(\S*)(.*)$`)

func parseTokenLimit(t *engine.GatewayToken, field string) error {
	switch field {
	case "private":
		t.Private = true
		return nil
	case "share":
		t.Share = true
		return nil
	}
	key, value, _ := strings.Cut(field, "=")
	switch key {
	case "rate":
		r, err := strconv.ParseFloat(value, 64)
		if err != nil || !(r > 0 && r <= 1e9) {
			return errors.New("rate needs a number above 0: the questions per second of all its devices")
		}
		t.AskRate = r
	case "devices":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return errors.New("devices needs a whole number above 0")
		}
		t.MaxDevices = n
	case "weight":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > fair.MaxWeight {
			return fmt.Errorf("weight needs a whole number above 0, at most %d: how many times the share of a token "+
				"without a weight it gets", fair.MaxWeight)
		}
		t.Weight = n
	default:
		return errors.New("write rate=N, devices=N, weight=N, private or share")
	}
	return nil
}
