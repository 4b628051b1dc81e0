package group

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/price"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// PriceFlag is an optional price list for the work of the large model.
type PriceFlag struct{ List *price.List }

// Register adds the flags to a command.
func (p *PriceFlag) Register(f *pflag.FlagSet) {
	cli.AddValue(f, "price", p)
}

// String implements pflag.Value.
func (p *PriceFlag) String() string {
	if p.List == nil {
		return ""
	}
	return p.List.String()
}

// Set implements pflag.Value.
func (p *PriceFlag) Set(s string) error {
	l, err := price.Parse(s)
	if err == nil {
		p.List = &l
	}
	return err
}

// Type implements pflag.Value.
func (p *PriceFlag) Type() string { return "list" }

// CostText describes the cost of an answer.
func CostText(c *price.Cost) string {
	return fmt.Sprintf("the large model's work cost %s (%s per thousand such answers); alone it would have cost %s",
		price.Money(c.PerAnswer), price.Money(c.Per1000), price.Money(c.CloudOnly))
}
