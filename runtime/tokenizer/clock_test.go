package tokenizer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTimes compares with what Python's strftime writes, in the locale C.
func TestTimes(t *testing.T) {
	const date, hours, others = "%a %A %b %B %h %d %e %m %y %Y %j", "%H:%M:%S.%f %I %p", "%c|%x|%X|%D %F %R %T|%r"
	const short = "%-d/%-m/%-H/%-I/%-j/%-M/%-e 100%% %Z%-Z%z.%n%t%G-W%V-%u %w"
	for _, c := range []struct{ at, form, want string }{
		{"2024-10-18T04:23:58.633256", date, "Fri Friday Oct October Oct 18 18 10 24 2024 292"},
		{"1999-05-01T00:52:55.282519", date, "Sat Saturday May May May 01  1 05 99 1999 121"},
		{"2027-12-01T21:49:04.007142", hours, "21:49:04.007142 09 PM"},
		{"2027-12-01T00:49:04", hours, "00:49:04.000000 12 AM"},
		{"2027-12-01T21:49:04", others, "Wed Dec  1 21:49:04 2027|12/01/27|21:49:04|" +
			"12/01/27 2027-12-01 21:49 21:49:04|09:49:04 PM"},
		{"2027-05-09T07:05:00", short, "9/5/7/7/129/5/9 100% .\n\t2027-W18-7 0"},
		{"2027-01-01T00:00:00", short, "1/1/0/12/1/0/1 100% .\n\t2026-W53-5 5"},
		{"2027-01-01T00:00:00", "é %Y|%-S", "é 2027|0"},
	} {
		t.Run(c.at+" "+c.form, func(t *testing.T) {
			at, err := time.Parse("2006-01-02T15:04:05", c.at)
			require.NoError(t, err)
			got, err := formatStrftime(at, c.form)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	for form, want := range map[string]string{
		"%Y %": "ends with %: write %% for a percent sign", "%-": "ends with %",
		"%Q %Y": "%Q in the form of a time is not",
	} {
		_, err := formatStrftime(time.Time{}, form)
		assert.ErrorContains(t, err, want)
	}
}

// TestDates: a template can write the date of the clock, or of a value that is given. Its hash has no date.
func TestDates(t *testing.T) {
	const dated = "{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no clock' }}"
	tok := trained(1).with(keyTemplate, dated).tokenizer(t)
	hash := tok.ChatHash()
	tok.now = func() time.Time { return time.Date(2027, 2, 3, 4, 5, 6, 0, time.Local) }
	ids, err := tok.Chat(says("user", "x"), nil)
	require.NoError(t, err)
	assert.Equal(t, "03 Feb 2027", tok.Decode(ids))
	other := newStrftimeValue(func() time.Time { return time.Unix(0, 0).UTC() })
	ids, err = tok.Chat(says("user", "x"), nil, other)
	require.NoError(t, err)
	assert.Equal(t, "01 Jan 1970", tok.Decode(ids))
	assert.Equal(t, hash, tok.computeChatHash([32]byte{}))
	_, err = trained(1).with(keyTemplate, "{{ strftime_now('%Q') }}").tokenizer(t).Chat(says("user", "x"), nil)
	assert.ErrorContains(t, err, "line 1 of the template: %Q in the form of a time is not supported")
}
