package run

import (
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// screen is a minimal terminal for previews: the width of a line, and the escape sequences that they use.
type screen struct {
	width     int
	lines     [][]rune
	at, saved int // column of the cursor in the last line
	dim       bool
	seenDim   bool
}

// Write implements [io.Writer].
func (s *screen) Write(b []byte) (int, error) {
	for text := string(b); text != ""; {
		switch {
		case strings.HasPrefix(text, saveCursor):
			text, s.saved = text[len(saveCursor):], s.at
		case strings.HasPrefix(text, restoreCursor):
			text, s.at = text[len(restoreCursor):], s.saved
		case strings.HasPrefix(text, dimmed):
			text, s.dim, s.seenDim = text[len(dimmed):], true, true
		case strings.HasPrefix(text, cli.PlainAgain):
			text, s.dim = text[len(cli.PlainAgain):], false
		case strings.HasPrefix(text, eraseToEnd):
			text = text[len(eraseToEnd):]
			last := len(s.lines) - 1
			s.lines[last] = s.lines[last][:min(s.at, len(s.lines[last]))]
		default:
			r, size := utf8.DecodeRuneInString(text)
			text = text[size:]
			s.put(r)
		}
	}
	return len(b), nil
}

func (s *screen) put(r rune) {
	if r == '\t' {
		for stop := min(s.at/8*8+8, s.width-1); s.at < stop; {
			s.put(' ')
		}
		return
	}
	cells := 1
	if r == '海' {
		cells = 2
	}
	if r == '\n' || s.at+cells > s.width {
		s.lines, s.at = append(s.lines, nil), 0
		if r == '\n' {
			return
		}
	}
	last := len(s.lines) - 1
	line := append(s.lines[last][:s.at], r)
	if cells == 2 {
		line = append(line, -1)
	}
	s.lines[last], s.at = line, s.at+cells
}

// text returns what the screen shows, without line ends at full lines.
func (s *screen) text() string {
	var all strings.Builder
	for _, line := range s.lines {
		for _, r := range line {
			if r >= 0 {
				all.WriteRune(r)
			}
		}
		all.WriteByte('\n')
	}
	return all.String()
}

func newScreen(width int) (*screen, *previewer) {
	s := &screen{width: width, lines: make([][]rune, 1)}
	return s, &previewer{out: s, width: func() int { return width }, dim: true}
}

// TestPreview: unverified text is shown after the cursor, dim and on one line, until it is replaced or a token is
// printed.
func TestPreview(t *testing.T) {
	s, p := newScreen(20)
	token := func(text string) {
		_, err := io.WriteString(p, cli.Harmless(text))
		require.NoError(t, err)
	}
	show := func(text string) { require.NoError(t, p.showText(text)) }
	token("The sea")
	show(" is red")
	assert.Equal(t, "The sea is red\n", s.text())
	assert.True(t, s.seenDim && !s.dim)
	assert.Equal(t, 7, s.at, "the cursor is at the end of the text")
	show(" is")
	assert.Equal(t, "The sea is\n", s.text())
	token(" was")
	assert.Equal(t, "The sea was\n", s.text())
	show(" deep and blue and wide")
	assert.Equal(t, "The sea was deep an\n", s.text(), "one column stays free")
	show("\nnew line")
	assert.Equal(t, "The sea was\n", s.text(), "nothing after the line")
	show(" a\x1b[2Jb\tc")
	assert.Equal(t, "The sea was a [2Jb \n", s.text(), "no control sequences")
	show("")
	token("\nand")
	show(" 海海海海海海海海")
	assert.Equal(t, "The sea was\nand 海海海海海海海\n", s.text(), "wide characters take two columns")
	token(" more than fits")
	show("xxxxxxxxxxx")
	assert.Equal(t, "The sea was\nand more than fitsx\n", s.text())
	token("xyz")
	show("ab")
	assert.Equal(t, "The sea was\nand more than fitsxy\nzab\n", s.text(), "the cursor moved to the next line")
	token("\nThe sea’s\r\t")
	show("abcdef")
	assert.True(t, strings.HasSuffix(s.text(), "\nThe sea’s␍      abc\n"), "a tab ends at 16: %s", s.text())
	show("a\rb\r")
	assert.True(t, strings.HasSuffix(s.text(), "\nThe sea’s␍      a b\n"), "it stays on the right: %s", s.text())

	p.dim, s.seenDim = false, false
	show("c")
	assert.False(t, s.seenDim, "NO_COLOR")
	broken := errors.New("no more")
	p.out = clitest.WriterFunc(func([]byte) (int, error) { return 0, broken })
	assert.ErrorIs(t, p.showText("d"), broken)
	assert.Equal(t, 80, cli.Columns(io.Discard, 80))
}

// TestCharacterColumns: how many columns a character takes.
func TestCharacterColumns(t *testing.T) {
	for columns, all := range []string{"\u0301\u20dd", "aé’–…€→─\x1b\t\r\xff\u1200", "海가、✅⭐🐟😀\u115f\uff01\U00020000"} {
		for text := all; text != ""; {
			r, size, cells := decodeCell(text)
			assert.Equal(t, columns, cells, "%q", text[:size])
			assert.False(t, r < ' ' || r == 0x7f, "%q", text[:size])
			text = text[size:]
		}
	}
}

// TestPreviewLeavesNoTrace: after any previews, only the tokens remain.
func TestPreviewLeavesNoTrace(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	alphabet := []rune("abc \n海é’\t\r")
	word := func(maxLetters int) string {
		var b strings.Builder
		for range r.IntN(maxLetters) {
			b.WriteRune(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	for n := range 300 {
		width := 2 + r.IntN(30)
		s, p := newScreen(width)
		plain, _ := newScreen(width)
		for range 40 {
			if r.IntN(2) == 0 {
				require.NoError(t, p.showText(word(40)))
				continue
			}
			text := cli.Harmless(word(6))
			_, err := io.WriteString(plain, text)
			require.NoError(t, err)
			_, err = io.WriteString(p, text)
			require.NoError(t, err)
			require.Equal(t, plain.text(), s.text(), strconv.Itoa(n))
		}
		require.NoError(t, p.showText(""))
		require.Equal(t, plain.text(), s.text())
		require.Equal(t, plain.at, s.at)
	}
}
