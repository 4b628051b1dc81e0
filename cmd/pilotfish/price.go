package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/price"
)

// priceFlag is a price list of the large model's work, if one is given.
type priceFlag struct{ list *price.List }

func (p *priceFlag) register(f *pflag.FlagSet) {
	addValue(f, "price", p)
}

// String implements pflag.Value.
func (p *priceFlag) String() string {
	if p.list == nil {
		return ""
	}
	return p.list.String()
}

// Set implements pflag.Value.
func (p *priceFlag) Set(s string) error {
	l, err := price.Parse(s)
	if err == nil {
		p.list = &l
	}
	return err
}

// Type implements pflag.Value.
func (p *priceFlag) Type() string { return "list" }

// costText says what an answer costs.
func costText(c *price.Cost) string {
	return fmt.Sprintf("the large model's work cost %s (%s per thousand such answers); alone it would have cost %s",
		price.Money(c.PerAnswer), price.Money(c.Per1000), price.Money(c.CloudOnly))
}
