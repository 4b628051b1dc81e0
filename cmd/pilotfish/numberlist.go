package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// numberList is a flag of whole numbers separated by commas. What is given replaces the default.
type numberList []int

// maxNumbers is the longest list that is taken.
const maxNumbers = 1000

// Set implements [pflag.Value].
func (l *numberList) Set(text string) error {
	var all numberList
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		switch {
		case err != nil:
			return fmt.Errorf("%.40q is not a whole number: give some such as 16,512", field)
		case slices.Contains(all, n):
			return fmt.Errorf("%d is there twice", n)
		case len(all) == maxNumbers:
			return fmt.Errorf("there are more than %d numbers", maxNumbers)
		}
		all = append(all, n)
	}
	*l = all
	return nil
}

// String implements [pflag.Value].
func (l *numberList) String() string {
	var all []string
	for _, n := range *l {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

// Type implements [pflag.Value].
func (l *numberList) Type() string { return "numbers" }
