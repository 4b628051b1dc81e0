package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/jinja"
)

// newStrftimeValue returns the function by which chat templates write the date: strftime_now("%d %b %Y").
func newStrftimeValue(now func() time.Time) Value {
	return Value{Name: "strftime_now", Value: jinja.Func(func(form string) (string, error) {
		return formatStrftime(now(), form)
	})}
}

// layouts are the directives of strftime that Go's layouts have, too, in the locale C.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'e': "_2", 'm': "01", 'y': "06",
	'Y': "2006", 'j': "002", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'D': "01/02/06",
	'F': "2006-01-02", 'R': "15:04", 'T': "15:04:05", 'r': "03:04:05 PM", 'c': "Mon Jan _2 15:04:05 2006",
	'x': "01/02/06", 'X': "15:04:05",
}

// formatStrftime formats a time as Python does: a directive such as %d is replaced, and %-d without
// a leading zero or blank.
func formatStrftime(t time.Time, form string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(form, "%")
		if b.WriteString(before); !found {
			return b.String(), nil
		}
		rest, short := strings.CutPrefix(rest, "-")
		if rest == "" {
			return "", fmt.Errorf("the form of a time ends with %%: write %%%% for a percent sign")
		}
		part, ok := formatDirective(t, rest[0])
		if !ok {
			return "", fmt.Errorf("%%%.1s in the form of a time is not supported", rest)
		}
		if short && part != "" {
			part = strings.TrimLeft(part[:len(part)-1], "0 ") + part[len(part)-1:]
		}
		b.WriteString(part)
		form = rest[1:]
	}
}

func formatDirective(t time.Time, c byte) (text string, ok bool) {
	year, week := t.ISOWeek()
	switch c {
	case '%', 'n', 't':
		return map[byte]string{'%': "%", 'n': "\n", 't': "\t"}[c], true
	case 'z', 'Z': // Python's time has no zone
		return "", true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'G':
		return strconv.Itoa(year), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	}
	layout, ok := layouts[c]
	return t.Format(layout), ok
}
