package terms

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseMargin parses a margin of verification, in nats: a decimal number, 0 or more.
func ParseMargin(text string) (float64, error) {
	m, err := strconv.ParseFloat(text, 64)
	if err != nil || !(m >= 0) || math.IsInf(m, 1) || strings.Trim(text, "0123456789.") != "" {
		return 0, fmt.Errorf("%.40q is not a margin: give nats as a decimal number, 0 or more, such as 0.5", text)
	}
	return m, nil
}
