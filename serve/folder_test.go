package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// folder opens a folder with a log.
func folder(t *testing.T, path string, limit int64) (*Folder, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	f, err := OpenFolder(path, limit, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	return f, &log
}

// filesOf returns the contents of the files in a folder.
func filesOf(t *testing.T, path string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() == "lock" {
			continue
		}
		info, err := e.Info()
		require.NoError(t, err)
		assert.EqualValues(t, 0o600, info.Mode(), e.Name())
		b, err := os.ReadFile(filepath.Join(path, e.Name()))
		require.NoError(t, err)
		all = append(all, strings.TrimPrefix(string(b), "saved:"))
	}
	return all
}

// TestFolderRefused: a folder that cannot be made, locked or read is an error.
func TestFolderRefused(t *testing.T) {
	path := t.TempDir()
	within := filepath.Join(path, "file", "kv")
	foreign := filepath.Join(within, strings.Repeat("0", 32)+".kv")
	require.NoError(t, os.MkdirAll(foreign, 0o700))
	f, log := folder(t, within, 1000)
	defer f.Close()
	f.indexTexts(&fakeModel{})
	assert.Contains(t, log.String(), "texts=0 of_no_use=0 bytes=0", "a folder is no file")
	assert.DirExists(t, foreign)
	require.NoError(t, os.Mkdir(filepath.Join(path, "lock"), 0o700))
	_, err := OpenFolder(path, 1000, slog.New(slog.DiscardHandler))
	assert.ErrorContains(t, err, "lock")
}

// savedTo saves a text to a folder.
func savedTo(t *testing.T, f *Folder, text string) {
	f.saveText(t.Context(), &fakeSession{m: &fakeModel{}, text: idsOf(text)})
}

// TestFolder: texts without room in memory are saved in the folder and loaded again; also after a restart only the last
// token of a prompt is computed.
func TestFolder(t *testing.T) {
	path := filepath.Join(held.TempDir(t), "a", "b")
	m := &fakeModel{answer: func(string, terms.Settings) string { return "fine" }}
	serve := func() (s *Server, cached func(text string) int) {
		f, _ := folder(t, path, 1000)
		s = newTestServer(t, m, func(o *Options) { o.Parallel, o.Sessions, o.Folder = 1, 1, f })
		t.Cleanup(func() { require.NoError(t, s.Close()); f.Close() })
		return s, func(text string) int {
			w := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"`+text+`"}]}`)
			require.Equal(t, 200, w.Code, "%s", w.Body)
			return int(at(object(t, w.Body.Bytes()), "usage", "prompt_tokens_details", "cached_tokens").(float64))
		}
	}
	s, cached := serve()
	assert.Equal(t, 0, cached("first"))
	assert.Equal(t, len("user:"), cached("second"), "the session has the same prefix")
	require.NoError(t, s.Close())
	s.o.Folder.Close()
	assert.ElementsMatch(t, []string{"user:second\nassistant:fine"}, filesOf(t, path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 0o700, info.Mode().Perm())

	s, cached = serve()
	prompt := len("user:second\nassistant:")
	assert.Equal(t, prompt-1, cached("second"))
	assert.Equal(t, prompt-1, cached("second"), "from memory")
	w := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"second"},{"role":"assistant",`+
		`"content":"fine"},{"role":"user","content":"third"}]}`)
	require.Equal(t, 200, w.Code)
	require.NoError(t, s.Close())
	assert.Equal(t, []string{"user:second\nassistant:fine\nuser:third\nassistant:fine"}, filesOf(t, path),
		"a longer text replaces its beginning")
	_, err = OpenFolder(path, 1, s.o.Log)
	assert.ErrorContains(t, err, "give each server a folder of its own")
}

// TestFolderEvicted: two texts that share one session are each loaded from the folder.
func TestFolderEvicted(t *testing.T) {
	f, log := folder(t, held.TempDir(t), 1000)
	defer f.Close()
	m := &fakeModel{}
	f.indexTexts(m)
	p := newSessionPool(m, 1, f, slog.New(slog.DiscardHandler))
	a := p.acquireSession(t.Context(), idsOf("one?"), true)
	a.session.(*fakeSession).text = idsOf("one?yes")
	p.releaseSession(a, idsOf("one?yes."), 4) // its last token was not evaluated
	b := p.acquireSession(t.Context(), idsOf("two?"), true)
	b.session.(*fakeSession).text = idsOf("two?no")
	p.releaseSession(b, idsOf("two?no."), 4)
	for range 3 {
		for _, text := range []string{"one?yes", "two?no"} {
			h := p.acquireSession(t.Context(), idsOf(text+". Why?"), true)
			assert.Equal(t, text, textOf(h.session.(*fakeSession).text))
			p.releaseSession(h, idsOf(text+"."), 4)
		}
	}
	p.saveAndCloseIdle()
	assert.ElementsMatch(t, []string{"one?yes", "two?no"}, filesOf(t, f.path))
	assert.Empty(t, log.String()[strings.Index(log.String(), "\n")+1:], "no errors in the log")
}

// TestFolderWritesOnce: a text that is stored is not written again when its session loses its place, also after a
// restart and if the session holds fewer tokens than were sent to the client.
func TestFolderWritesOnce(t *testing.T) {
	path, m := held.TempDir(t), &fakeModel{}
	files := map[string]os.FileInfo{}
	for range 2 {
		f, _ := folder(t, path, 1000)
		f.indexTexts(m)
		for range 3 {
			p := newSessionPool(m, 1, f, slog.New(slog.DiscardHandler))
			for _, text := range []string{"one?yes", "two?no"} {
				h := p.acquireSession(t.Context(), idsOf(text[:4]), true)
				h.session.(*fakeSession).text = idsOf(text)
				p.releaseSession(h, idsOf(text+"..."), 4)
			}
			p.saveAndCloseIdle()
			require.ElementsMatch(t, []string{"one?yes", "two?no"}, filesOf(t, path))
			for _, s := range f.saved {
				now, err := os.Stat(f.filePath(s.name))
				require.NoError(t, err)
				before, known := files[s.name]
				assert.True(t, !known || os.SameFile(before, now), "it was written again")
				files[s.name] = now
			}
		}
		f.Close()
	}
}

// TestFolderLent: a text whose beginning is of no use, since the folder has more of the prompt, is given back.
func TestFolderLent(t *testing.T) {
	f, _ := folder(t, held.TempDir(t), 1000)
	defer f.Close()
	m := &fakeModel{}
	f.indexTexts(m)
	savedTo(t, f, "where is it?")
	p := newSessionPool(m, 3, f, slog.New(slog.DiscardHandler))
	defer p.saveAndCloseIdle()
	p.releaseSession(p.acquireSession(t.Context(), idsOf("who?"), true), idsOf("who? I."), 4)
	h := p.acquireSession(t.Context(), idsOf("where is it? Why?"), true)
	assert.Equal(t, "where is it?", textOf(h.session.(*fakeSession).text))
	require.Len(t, p.idle, 1)
	assert.Zero(t, p.idle[0].lent)
	p.releaseSession(h, idsOf("where is it? Why? So."), 17)
}

// TestFolderOrMemory: of the file and the session with the most of a prompt, the one with more is used; the session if
// the file is damaged.
func TestFolderOrMemory(t *testing.T) {
	for name, c := range map[string]struct {
		file, memory, prompt, want string
		damaged                    bool
	}{
		"the file has more":    {"where is it?", "who is it?", "where is it? Why?", "where is it?", false},
		"a damaged file":       {"where is it?", "who is it?", "where is it? Why?", "wh", true},
		"the session has more": {"who?", "who is it?", "who is he?", "who is ", false},
		"both have the same":   {"who is what?", "who is it?", "who is he?", "who is ", false},
		"only the file has it": {"where is it?", "is it?", "who is he?", "where is it?", false},
		"neither has it":       {"where is it?", "is it?", "no", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := folder(t, held.TempDir(t), 1000)
			m := &fakeModel{}
			f.indexTexts(m)
			savedTo(t, f, c.file)
			if c.damaged {
				path := f.filePath(f.longestPrefixFile(idsOf(c.file), 0))
				require.NoError(t, os.WriteFile(path, []byte("broken"), 0o600))
			}
			p := newSessionPool(m, 3, f, slog.New(slog.DiscardHandler))
			h := p.acquireSession(t.Context(), idsOf(c.memory), true)
			h.session.(*fakeSession).text = idsOf(c.memory)
			p.releaseSession(h, idsOf(c.memory), len(c.memory))
			h = p.acquireSession(t.Context(), idsOf(c.prompt), true)
			assert.Equal(t, c.want, textOf(h.session.(*fakeSession).text))
			p.releaseSession(h, nil, 0)
			p.saveAndCloseIdle()
			f.Close()
		})
	}
}

// unsaved is a session that cannot be saved, after it has written a text.
type unsaved struct {
	*fakeSession
	wrote string
}

func (s unsaved) SaveKV(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, s.wrote)
	return errors.Join(err, errors.New("there is nothing"))
}

// TestFolderFails: a session that cannot be saved leaves no file. That is a fault only if it has written something.
func TestFolderFails(t *testing.T) {
	long := "saved:" + strings.Repeat("a", 2<<20) // longer than the buffer
	for wrote, warned := range map[string]bool{"": false, "saved:aaaa": true, long: true} {
		f, log := folder(t, held.TempDir(t), 3<<20)
		f.indexTexts(&fakeModel{})
		f.saveText(t.Context(), unsaved{&fakeSession{m: &fakeModel{}}, wrote})
		assert.Empty(t, filesOf(t, f.path))
		assert.Equal(t, warned, strings.Contains(log.String(), "level=WARN"), log)
		f.Close()
	}
}

// lateLoad is a session for which the files of a folder are removed while it loads one of them.
type lateLoad struct {
	*fakeSession
	f   *Folder
	err error
}

func (l lateLoad) LoadKV(context.Context, io.Reader) ([]int32, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.makeRoom(l.f.limit)
	return nil, l.err
}

// TestFolderWithoutFile: a file that had to go while it was loaded is loaded, or not, like others.
func TestFolderWithoutFile(t *testing.T) {
	for _, err := range []error{nil, io.ErrUnexpectedEOF} {
		f, _ := folder(t, held.TempDir(t), 40)
		f.indexTexts(&fakeModel{})
		savedTo(t, f, "aaaa")
		assert.Equal(t, err == nil, f.loadText(t.Context(), lateLoad{&fakeSession{}, f, err}, idsOf("aaaab"), 0))
		assert.Empty(t, filesOf(t, f.path))
		f.Close()
	}
}

// TestFolderBound: the least recently used file goes first, also after a restart. A continued text replaces its prefix,
// an existing text is not written again, and one that is too large is not kept.
func TestFolderBound(t *testing.T) {
	f, log := folder(t, held.TempDir(t), 40)
	m := &fakeModel{}
	f.indexTexts(m)
	savedTo(t, f, "aaaa")
	savedTo(t, f, "bbbb")
	savedTo(t, f, "cccc")
	savedTo(t, f, "dddd") // 4 of 10 bytes
	savedTo(t, f, "aaaa")
	assert.ElementsMatch(t, []string{"aaaa", "bbbb", "cccc", "dddd"}, filesOf(t, f.path))
	savedTo(t, f, "eeee")
	assert.ElementsMatch(t, []string{"aaaa", "cccc", "dddd", "eeee"}, filesOf(t, f.path))
	s := m.NewSession()
	assert.False(t, f.loadText(t.Context(), s, idsOf("cccx"), 3), "no more tokens than needed")
	assert.True(t, f.loadText(t.Context(), s, idsOf("cccx"), 2))
	savedTo(t, f, "ffff")
	assert.ElementsMatch(t, []string{"aaaa", "cccc", "eeee", "ffff"}, filesOf(t, f.path))
	savedTo(t, f, "aaaabb")
	assert.ElementsMatch(t, []string{"cccc", "ffff", "aaaabb"}, filesOf(t, f.path), "12 bytes added, 10 removed")
	savedTo(t, f, strings.Repeat("x", 35))
	assert.Contains(t, log.String(), "larger than the limit of the folder")
	assert.NotContains(t, log.String(), "xxx")
	assert.Len(t, filesOf(t, f.path), 3)
	assert.EqualValues(t, 32, f.bytes)
	full, _ := folder(t, held.TempDir(t), 40)
	full.indexTexts(m)
	for _, text := range []string{"aaaa", strings.Repeat("x", 34)} {
		savedTo(t, full, text)
		assert.Equal(t, []string{text}, filesOf(t, full.path), "all of the limit can be used")
	}
	full.Close()

	for i, text := range []string{"ffff", "aaaabb", "cccc"} { // in their order of use
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		name := f.saved[f.findFile(f.longestPrefixFile(idsOf(text), 3))].name
		require.NoError(t, os.Chtimes(f.filePath(name), at, at))
	}
	for name, content := range map[string]string{"new-1.kv": "x", "talk.json.kv": "saved:mine", "notes.txt": "mine",
		"0123.kv": "saved:mine"} {
		require.NoError(t, os.WriteFile(f.filePath(name), []byte(content), 0o600))
	}
	f.Close()
	f, _ = folder(t, f.path, 25)
	f.indexTexts(m)
	assert.ElementsMatch(t, []string{"cccc", "aaaabb", "mine", "mine", "mine"}, filesOf(t, f.path),
		"files of others stay")
	f.Close()
}

// TestFolderUses: a later process knows which text was used last, to load it or since it was there already.
func TestFolderUses(t *testing.T) {
	for _, use := range []func(f *Folder, m *fakeModel) bool{
		func(f *Folder, m *fakeModel) bool { return f.loadText(t.Context(), m.NewSession(), idsOf("aaaab"), 3) },
		func(f *Folder, _ *fakeModel) bool { savedTo(t, f, "aaaa"); return true },
	} {
		f, _ := folder(t, held.TempDir(t), 1000)
		m := &fakeModel{}
		f.indexTexts(m)
		for i, text := range []string{"aaaa", "bbbb", "cccc"} {
			savedTo(t, f, text)
			at := time.Now().Add(time.Duration(i-10) * time.Minute)
			require.NoError(t, os.Chtimes(f.filePath(f.saved[i].name), at, at))
		}
		assert.True(t, use(f, m))
		f.Close()
		f, _ = folder(t, f.path, 20)
		assert.ElementsMatch(t, []string{"aaaa", "cccc"}, filesOf(t, f.path))
		f.Close()
	}
}

// TestFolderEnds: with an ended context no text is loaded, and none is saved to make room.
func TestFolderEnds(t *testing.T) {
	f, log := folder(t, held.TempDir(t), 1000)
	defer f.Close()
	m := &fakeModel{}
	f.indexTexts(m)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.saveText(ended, &fakeSession{m: m, text: idsOf("aaaa")})
	assert.Equal(t, []string{"aaaa"}, filesOf(t, f.path))
	assert.False(t, f.loadText(ended, m.NewSession(), idsOf("aaaab"), 0))
	assert.Equal(t, []string{"aaaa"}, filesOf(t, f.path))
	assert.NotContains(t, log.String(), "level=WARN")
}

// TestFolderDamaged: a foreign file is ignored and kept; a damaged file is removed, and its text is computed.
func TestFolderDamaged(t *testing.T) {
	f, log := folder(t, held.TempDir(t), 1000)
	m := &fakeModel{}
	f.indexTexts(m)
	savedTo(t, f, "aaaa")
	name := f.longestPrefixFile(idsOf("aaaa"), 0)
	require.NoError(t, os.WriteFile(f.filePath(name), []byte("broken"), 0o600))
	assert.False(t, f.loadText(t.Context(), m.NewSession(), idsOf("aaaa"), 0))
	assert.Contains(t, log.String(), "cannot be used")
	assert.Empty(t, filesOf(t, f.path))
	other := strings.Repeat("0", 32) + ".kv"
	require.NoError(t, os.WriteFile(f.filePath(other), []byte("of another model"), 0o600))
	f.Close()
	f, log = folder(t, f.path, 1000)
	defer f.Close()
	f.indexTexts(m)
	assert.Contains(t, log.String(), "of no use here")
	assert.Contains(t, log.String(), "texts=0 of_no_use=1 bytes=16")
	assert.Len(t, filesOf(t, f.path), 1)
	assert.Empty(t, f.longestPrefixFile(idsOf("o"), 0))
	savedTo(t, f, "bbbb")
	assert.Len(t, filesOf(t, f.path), 2)
	require.NoError(t, os.RemoveAll(f.path))
	savedTo(t, f, "cccc")
	assert.Contains(t, log.String(), "could not be saved")
	assert.False(t, f.loadText(t.Context(), m.NewSession(), idsOf("bbbb"), 0), "it has been removed")
}
