package group

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// GatewayFlags has the flags for a gateway: its address, how it is authenticated, and the credentials of this device.
type GatewayFlags struct {
	Set     *pflag.FlagSet
	Address string
	Pin     string
	Token   string
	Require bool
	By      string // the source of the address: "--cloud", or "/cloud" in a chat; "" means the former
}

// Register adds the flags for a gateway that this device may ask.
func (c *GatewayFlags) Register(f *pflag.FlagSet) {
	c.Set = f
	cli.Add(f, "cloud", &c.Address, "")
	cli.Add(f, "pin", &c.Pin, "")
	cli.Add(f, "token-file", &c.Token, "")
}

// Parse returns the options that do not depend on the model. It opens no file except that of the access token.
func (c *GatewayFlags) Parse(a *cli.App) (pilotfish.DialOptions, error) {
	o := pilotfish.DialOptions{Lazy: true}
	if err := CheckAddress(c.Address); err != nil {
		return o, cli.Usagef("--cloud %q: %w", c.Address, err)
	}
	if c.Set.Changed("pin") {
		if _, err := ParsePin(c.Pin); err != nil {
			return o, cli.Usagef("--pin: %w", err)
		}
		o.Pin = c.Pin
	}
	var err error
	o.Token, _, err = a.Secret(c.Token, c.Set.Changed("token-file"))
	return o, err
}

// Engine converts the options of Parse to those of the engine.
func (c *GatewayFlags) Engine(o pilotfish.DialOptions) (engine.DialOptions, error) {
	e := engine.DialOptions{
		Lazy: o.Lazy, Secret: netproto.Secret(o.Token), Device: o.Device, TicketFolder: o.TicketFolder,
	}
	if o.Pin == "" {
		return e, nil
	}
	var err error
	e.Pin, err = ParsePin(o.Pin)
	return e, err
}

// ParsePin parses the fingerprint of a certificate.
func ParsePin(text string) (netproto.Digest, error) {
	pin, err := netproto.ParseDigest(text)
	if err == nil && pin == (netproto.Digest{}) {
		err = errors.New("no certificate has a fingerprint of zeros: give the one that `pilotfish cloud` prints")
	}
	return pin, err
}

// CheckAddress returns an error if an address is not host:port.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if wrong, ok := errors.AsType[*net.AddrError](err); ok {
		return fmt.Errorf("%s: give host:port, such as gpu.example.org:4433", wrong.Err)
	}
	switch n, err := strconv.ParseUint(port, 10, 64); {
	case host == "":
		return errors.New("there is no host: give host:port, such as gpu.example.org:4433")
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("port %q is not a number", port)
	case n < 1 || n > 65535:
		return fmt.Errorf("port %s is out of range: it must be 1 to 65535", port)
	}
	return nil
}

// Remember sets the files that this device keeps between runs.
func (c *GatewayFlags) Remember(a *cli.App, o *pilotfish.DialOptions) (err error) {
	if o.Device, err = loadDevice(a); err != nil {
		return err
	}
	// without a folder for tickets, connecting takes one more round trip
	if cache, err := os.UserCacheDir(); err == nil {
		o.TicketFolder = filepath.Join(cache, "pilotfish", "tickets")
	}
	return nil
}

// Explain adds advice to an error of configuration.
func (c *GatewayFlags) Explain(err error) error {
	const fingerprint = "`pilotfish cloud` prints it where the gateway runs"
	why, help := err, ""
	by, pin := "--cloud", "with --pin"
	if c.By == "/cloud" {
		by, pin = c.By, "after the address, as in /cloud "+c.Address+" FINGERPRINT"
	}
	if e, ok := errors.AsType[*engine.ConnectError](err); ok {
		why = e.Err
	}
	switch remedy := engine.RemedyFor(err); {
	case remedy == engine.NewPin:
		help = "if the gateway has a new certificate, give its new fingerprint " + pin + "; " + fingerprint
	case remedy == engine.GivePin:
		help = "give the certificate's fingerprint " + pin + "; " + fingerprint
	case remedy == engine.RightHost:
		help = "check the name of the host"
	case remedy == engine.RightSecret && c.Set.Changed("token-file"):
		help = "put the gateway's access token into the file of --token-file"
	case remedy == engine.RightSecret:
		help = "give the gateway's access token with --token-file or in " + cli.TokenVariable
	case remedy == engine.SameFamily:
		help = "use a small model (-m) of the same family as the gateway's"
	case remedy == engine.SameVersion:
		help = "use the same version of pilotfish here and there"
	default:
		help = "check the address, and that `pilotfish cloud` is running there"
	}
	return fmt.Errorf("%s %s: %w (%s)", by, c.Address, why, help)
}

// OtherTemplateText is the warning about a large model that was trained on another chat template.
const OtherTemplateText = "its chat template writes chats differently from that of the small model (-m), which " +
	"writes the prompts here: the large model may answer worse than with its own. Two models of one family and " +
	"release avoid this"

// WarnTemplate prints the warning if so is true.
func WarnTemplate(a *cli.App, so bool, name string) {
	if so {
		fmt.Fprintf(a.Stderr, "warning: %s: %s\n", name, OtherTemplateText)
	}
}
