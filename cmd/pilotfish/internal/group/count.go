package group

import (
	"errors"
	"strconv"
)

// count is a number from 1 on, or auto, which is 0.
type count int

// String implements pflag.Value.
func (c *count) String() string {
	if *c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(*c))
}

// Set implements pflag.Value.
func (c *count) Set(s string) error {
	if s == "auto" {
		*c = 0
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("give auto, or a number from 1 on")
	}
	*c = count(n)
	return nil
}

// Type implements pflag.Value.
func (c *count) Type() string { return "auto|N" }
